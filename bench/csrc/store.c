/*
 * store measures a key-value server that speaks torch's TCPStore protocol. Its clients
 * are threads with blocking sockets, as torch's own are.
 *
 *   store PORT DIALECT CLIENTS set|get|add N   each client does N operations
 *   store PORT DIALECT CLIENTS meet 1          all connect at once; each counts itself
 *                                              and waits until the last one has come
 *
 * It prints the nanoseconds from the start of the first client to the end of the last.
 * As torch's client does, get waits for the key first, and set has no answer; a last
 * get shows that all operations have been done. DIALECT is modern (torch 2.1 and later)
 * or legacy (torch 1.9 to 2.0).
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SET = 1, GET = 3, ADD = 4, WAIT = 6 }; /* modern; legacy has one less */

static int port, legacy, clients, operations;
static const char *kind;
static pthread_barrier_t barrier; /* of all clients and main: connected; and go */

static void die(const char *what) {
	perror(what);
	exit(1);
}

static void send_all(int fd, const char *p, size_t n) {
	while (n > 0) {
		ssize_t m = write(fd, p, n);
		if (m <= 0)
			die("write");
		p += m;
		n -= m;
	}
}

static void receive(int fd, void *p, size_t n) {
	while (n > 0) {
		ssize_t m = read(fd, p, n);
		if (m <= 0)
			die("read");
		p = (char *)p + m;
		n -= m;
	}
}

/* number and text append a field to a request; x86 and ARM have its byte order. */
static char *number(char *p, uint64_t n) {
	memcpy(p, &n, 8);
	return p + 8;
}

static char *text(char *p, const char *s) {
	p = number(p, strlen(s));
	memcpy(p, s, strlen(s));
	return p + strlen(s);
}

static char *command(char *p, int c) {
	*p = c - legacy;
	return p + 1;
}

static int dial(void) {
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
	int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof at) < 0)
		die("connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	if (!legacy)
		send_all(fd, "\x00\xCE\xF7\x85\x3C", 5);
	return fd;
}

static void set(int fd, const char *key) {
	char b[256];
	send_all(fd, b, text(text(command(b, SET), key), "a value of ordinary size........") - b);
}

static uint64_t add(int fd, const char *key) {
	char b[256];
	uint64_t sum;
	send_all(fd, b, number(text(command(b, ADD), key), 1) - b);
	receive(fd, &sum, 8);
	return sum;
}

static void await(int fd, const char *key) {
	char b[256], answer;
	send_all(fd, b, text(number(command(b, WAIT), 1), key) - b);
	receive(fd, &answer, 1);
}

static void get(int fd, const char *key) {
	char b[256];
	uint64_t n;
	await(fd, key);
	send_all(fd, b, text(command(b, GET), key) - b);
	receive(fd, &n, 8);
	if (n > sizeof b)
		die("a value is too long");
	receive(fd, b, n);
}

static void *client(void *arg) {
	int i, fd = -1, meet = !strcmp(kind, "meet");
	char key[64];
	snprintf(key, sizeof key, "/default_pg/0//%s%d", kind, (int)(intptr_t)arg);
	if (!meet)
		fd = dial();
	if (!strcmp(kind, "get"))
		set(fd, key);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	if (meet) {
		fd = dial();
		if (add(fd, "came") == (uint64_t)clients)
			set(fd, "all");
		await(fd, "all");
		return NULL;
	}
	for (i = 0; i < operations; i++) {
		if (!strcmp(kind, "set"))
			set(fd, key);
		else if (!strcmp(kind, "get"))
			get(fd, key);
		else
			add(fd, key);
	}
	if (!strcmp(kind, "set"))
		get(fd, key);
	return NULL;
}

static int64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv) {
	pthread_attr_t small;
	pthread_t *all;
	int64_t begin;
	int i;
	if (argc != 6) {
		fprintf(stderr, "usage: store PORT modern|legacy CLIENTS set|get|add|meet N\n");
		return 2;
	}
	port = atoi(argv[1]);
	legacy = !strcmp(argv[2], "legacy");
	clients = atoi(argv[3]);
	kind = argv[4];
	operations = atoi(argv[5]);
	alarm(60);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 << 10);
	pthread_barrier_init(&barrier, NULL, clients + 1);
	all = calloc(clients, sizeof *all);
	for (i = 0; i < clients; i++)
		if (pthread_create(&all[i], &small, client, (void *)(intptr_t)i))
			die("pthread_create");
	pthread_barrier_wait(&barrier);
	begin = now();
	pthread_barrier_wait(&barrier);
	for (i = 0; i < clients; i++)
		pthread_join(all[i], NULL);
	printf("%lld\n", (long long)(now() - begin));
	return 0;
}
