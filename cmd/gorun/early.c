//go:build earlyfork && cgo

// The keeper, as long as it has nothing to do but wait.
//
// To start the Go runtime and this program's packages takes longer than to start
// eight workers, and gorun is two processes. So this one forks before there is a
// runtime (and a second thread): the child becomes the agent, and the parent,
// the keeper, only passes signals on and waits. Its own runtime starts when the
// agent has left something to do; see package process for the rules of that.
#define _GNU_SOURCE
#include <fcntl.h>
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "early.h"

struct early early = {.lifeline = -1};

// What the agent says, in memory of both processes.
static volatile struct {
	int stepped_back;
	int told; // it ends at once, with
	int code;
} *word;

static pid_t keeper;

// The secret is for the agent alone: what waits beside it must not show it in
// /proc/PID/environ. Should it be the keeper that starts the agents, it gets it back.
static struct {
	char *at; // in the environment; NULL: there is none
	char *text;
} secret;

static void hide_secret(void) {
	const char name[] = "GORUN_SECRET=";
	for (char **entry = environ; entry && *entry; entry++)
		if (strncmp(*entry, name, sizeof name - 1) == 0) {
			char *at = *entry + sizeof name - 1;
			if (!secret.at && !(secret.text = strdup(at)))
				return;
			if (!secret.at)
				secret.at = at;
			memset(at, 0, strlen(at));
		}
}

static void restore_secret(void) {
	if (secret.at)
		strcpy(secret.at, secret.text);
}

void early_step_back(void) { word->stepped_back = 1; }

// childless: "exec gorun > >(tee log)" is not, and needs the table's care.
static int childless(void) {
	siginfo_t any;
	return waitid(P_ALL, 0, &any, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0 && errno == ECHILD;
}

// To take an agent's memory apart takes the kernel a millisecond, which nobody
// need wait for. One that leaves children does not tell, so that the keeper waits.
void early_tell(int code) {
	if (!childless() || getppid() != keeper)
		return;
	word->code = code;
	word->told = 1;
	kill(keeper, SIGCHLD);
}

// only_child is how the keeper knows that nobody else needs it, as PID 1 does.
static int only_child(pid_t agent) {
	char list[32], *end = list; // "1234 ", and more if there are more
	int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, list, sizeof list - 1);
	if (fd >= 0)
		close(fd);
	list[n > 0 ? n : 0] = 0;
	return strtol(list, &end, 10) == agent && strcmp(end, " ") == 0;
}

// init_reaps: PID 1 waits for orphans, as init does: it catches or ignores SIGCHLD,
// or sleeps with it held back. What runs first in a container may not, and would
// keep what is left of an agent whose keeper has not waited for it; such a one holds
// signals back too, but only while it starts something (Python does).
static int init_reaps(void) {
	char line[128], state = 0;
	unsigned long long held = 0, set;
	FILE *status = fopen("/proc/1/status", "re");
	while (status && fgets(line, sizeof line, status))
		if (sscanf(line, "State: %c", &state) == 0 &&
		    ((state == 'S' && sscanf(line, "SigBlk: %llx", &set) == 1) || sscanf(line, "SigIgn: %llx", &set) == 1 || sscanf(line, "SigCgt: %llx", &set) == 1))
			held |= set;
	if (status)
		fclose(status);
	return held >> (SIGCHLD - 1) & 1;
}

// rename_agent: who looks for gorun's processes by name, to send them a signal,
// must find the keeper alone, as the agent takes a second signal for "at once".
static void rename_agent(char *path) {
	char *base = strrchr(path, '/');
	base = base ? base + 1 : path;
	if (strcmp(base, "gorun") == 0)
		memcpy(base, "agent", 5);
	prctl(PR_SET_NAME, "agent");
}

// relax_timers: while the runtime has something to do, its monitor wakes up each
// 70 us, 50 of them timer slack. A wake-up beside an exec makes the kernel take the
// CPU for the busier one, move what execs to the other and leave this one idle: 4 %
// of the time that eight workers take. Half a millisecond is early enough for all
// timers of an agent; its children get the slack back (process.Table).
static void relax_timers(void) {
	const long relaxed = 500000;
	long slack = prctl(PR_GET_TIMERSLACK);
	if (slack > 0 && slack < relaxed && prctl(PR_SET_TIMERSLACK, relaxed) == 0)
		early.slack = slack;
}

// forwarded are the signals of process.Forwarded, and SIGCHLD.
static sigset_t forwarded(void) {
	const int all[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
		struct sigaction now;
		if (sigaction(all[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
			sigaddset(&set, all[i]);
	}
	return set;
}

// keep returns the agent's status once it has ended. It waits for orphans too:
// the keeper may be PID 1 of a container. A signal that comes before the agent
// takes any, which is soon, would kill it, so it is held back; held is what the
// agent never got.
static int keep(pid_t agent, int life, const sigset_t *signals, sigset_t *held) {
	const struct timespec often = {.tv_nsec = 2000000};
	int status, waits = 0, listens = 0, reaped = -1; // -1: looked up when the agent is on its way
	char byte;
	sigemptyset(held);
	for (;;) {
		pid_t pid = waitpid(-1, &status, WNOHANG | __WALL);
		if (pid == agent)
			return status;
		if (pid > 0)
			continue;
		if (word->told && !word->stepped_back && reaped > 0 && only_child(agent))
			_exit(word->code);
		int holds = 0;
		listens = listens || recv(life, &byte, 1, MSG_DONTWAIT) == 1;
		for (int sig = 1; sig < NSIG; sig++) {
			if (sigismember(held, sig) != 1)
				continue;
			if (listens || waits > 1000) { // not waited for yet: the pid is still its own
				kill(agent, sig);
				sigdelset(held, sig);
			} else {
				holds = 1;
			}
		}
		waits += holds;
		int sig = holds || reaped < 0 ? sigtimedwait(signals, NULL, &often) : sigwaitinfo(signals, NULL);
		if (sig < 0 && reaped < 0)
			reaped = init_reaps();
		if (sig > 0 && sig != SIGCHLD)
			sigaddset(held, sig);
	}
}

// kill_left ends what a killed agent has left, for which the runtime would take
// 5 ms longer; what is below that, and the waiting, is the runtime's. Nothing is
// killed that is not a child: /proc could be that of another pid namespace.
static int kill_left(void) {
	int killed = 0;
	pid_t pid;
	siginfo_t any;
	FILE *children = fopen("/proc/thread-self/children", "re");
	while (children && fscanf(children, "%d", &pid) == 1)
		if (waitid(P_PID, pid, &any, WEXITED | WNOHANG | WNOWAIT) == 0 && any.si_pid == 0)
			killed += kill(-pid, SIGKILL) == 0 || kill(pid, SIGKILL) == 0;
	if (children)
		fclose(children);
	return killed;
}

#ifdef __GLIBC__ // no other library gives constructors the arguments
__attribute__((constructor)) static void early_start(int argc, char **argv) {
	// What gorun itself starts has its role already.
	if (argc > 1 && !strcmp(argv[1], "agent-of-keeper"))
		return relax_timers();
	if (argc < 1 || (argc > 1 && !strcmp(argv[1], "probe-gpu")) || !childless())
		return;
	const struct timespec none = {0};
	int life[2];
	word = mmap(NULL, sizeof *word, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	keeper = getpid();
	if (word == MAP_FAILED || getrandom(&early.tag, sizeof early.tag, GRND_NONBLOCK) != sizeof early.tag ||
	    prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, life) < 0)
		return;
	signal(SIGCHLD, SIG_DFL); // a caller that ignores it would take the status away
	sigset_t signals = forwarded(), before, held;
	sigprocmask(SIG_BLOCK, &signals, &before);
	// Below 3 the caller has closed a standard stream; the runtime mends that.
	pid_t agent = life[0] < 3 ? -1 : fork();
	if (agent > 0) {
		close(life[0]);
		hide_secret();
		early.born = time(NULL);
		early.status = keep(agent, life[1], &signals, &held);
		if (!word->stepped_back && WIFEXITED(early.status) && childless())
			_exit(WEXITSTATUS(early.status));
		early.ended = !word->stepped_back;
		if (word->stepped_back)
			restore_secret();
		for (int sig = 1; word->stepped_back && sig < NSIG; sig++)
			if (sigismember(&held, sig) == 1)
				raise(sig); // taken when it is not blocked any more
		if (WIFSIGNALED(early.status))
			early.killed = kill_left();
		life[0] = -1;
	} else if (agent == 0) {
		setpgid(0, 0); // a terminal's Ctrl-C reaches the keeper alone
		while (sigtimedwait(&signals, NULL, &none) > 0)
			; // and one that came before the keeper has too
		early.lifeline = life[0];
		life[0] = -1;
#ifdef M_ARENA_MAX
		mallopt(M_ARENA_MAX, 1); // else each of the runtime's threads maps one of its own
#endif
		relax_timers();
		rename_agent(argv[0]);
	}
	if (life[0] >= 0)
		close(life[0]);
	close(life[1]);
	sigprocmask(SIG_SETMASK, &before, NULL);
}
#endif
