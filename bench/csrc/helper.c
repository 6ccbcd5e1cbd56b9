/* The two small programs that the benchmark starts.
 *
 *   helper worker FILE       a worker: appends "<monotonic ns> <pid>" to FILE,
 *                            then waits. SIGUSR1: exit 3. Others: as usual.
 *   helper spawn N CMD...    the floor: starts N copies of CMD and awaits them.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static void die(int sig) {
	(void)sig;
	_exit(3);
}

static int worker(const char *file, struct timespec t) {
	char line[64];
	int n = snprintf(line, sizeof line, "%lld %d\n",
	                 (long long)t.tv_sec * 1000000000LL + t.tv_nsec, (int)getpid());
	sigset_t none;

	alarm(300); /* never outlive the benchmark */
	signal(SIGTERM, SIG_DFL);
	signal(SIGUSR1, die);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);

	int fd = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, line, n) != n) {
		perror(file);
		return 1;
	}
	close(fd);
	for (;;)
		pause();
}

static int spawn(int n, char **cmd) {
	for (int i = 0; i < n; i++) {
		pid_t pid;
		int err = posix_spawn(&pid, cmd[0], NULL, NULL, cmd, environ);
		if (err) {
			fprintf(stderr, "%s: %s\n", cmd[0], strerror(err));
			return 1;
		}
	}
	while (wait(NULL) > 0)
		;
	return 0;
}

int main(int argc, char **argv) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (argc == 3 && strcmp(argv[1], "worker") == 0)
		return worker(argv[2], now);
	if (argc >= 4 && strcmp(argv[1], "spawn") == 0)
		return spawn(atoi(argv[2]), argv + 3);
	fprintf(stderr, "usage: helper worker FILE | helper spawn N CMD...\n");
	return 2;
}
