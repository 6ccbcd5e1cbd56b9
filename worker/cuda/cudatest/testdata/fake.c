// A stand-in for libcuda and libnccl, both in one library. Device memory is the host's, a
// stream is a thread, and the ranks of a communicator exchange data through a file that
// they map. What real libraries need, it insists on: a current context, calls of one length
// on both sides. Ranks that make different calls wait for ever, until an abort.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// Options: fake_set sets them for the process, variables of the environment set them for a
// new one.
static struct { char name[32], value[512]; } options[32];
static pthread_mutex_t options_lock = PTHREAD_MUTEX_INITIALIZER;

int fake_set(const char *name, const char *value) {
	pthread_mutex_lock(&options_lock);
	for (int i = 0; i < 32; i++)
		if (!options[i].name[0] || !strcmp(options[i].name, name)) {
			snprintf(options[i].name, sizeof options[i].name, "%s", name);
			snprintf(options[i].value, sizeof options[i].value, "%s", value);
			break;
		}
	pthread_mutex_unlock(&options_lock);
	return 0;
}

static int option(const char *name, char *to, size_t n) {
	const char *env = NULL;
	int found = 0;
	pthread_mutex_lock(&options_lock);
	for (int i = 0; i < 32 && options[i].name[0]; i++)
		if (!strcmp(options[i].name, name) && options[i].value[0]) {
			snprintf(to, n, "%s", options[i].value);
			found = 1;
		}
	pthread_mutex_unlock(&options_lock);
	if (!found && (env = getenv(name)) && *env) {
		snprintf(to, n, "%s", env);
		found = 1;
	}
	return found;
}

static int number(const char *name, int otherwise) {
	char text[64];
	return option(name, text, sizeof text) ? atoi(text) : otherwise;
}

// note appends a call to the file of FAKE_CUDA_LOG.
static void note(const char *call, const char *what) {
	char path[512], line[256];
	if (!option("FAKE_CUDA_LOG", path, sizeof path)) return;
	int n = snprintf(line, sizeof line, "%s%s%s\n", call, *what ? " " : "", what);
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0) return;
	if (write(fd, line, n) < 0) {}
	close(fd);
}

// libcuda.

static __thread void *stack[16]; // of the thread's contexts
static __thread int pushed;
#define current (pushed ? stack[pushed - 1] : NULL)
#define NEED_CONTEXT if (!current) return 201

static int devices(char list[8][64]) {
	char all[512] = "GPU-11111111-1111-1111-1111-111111111111";
	option("FAKE_CUDA_DEVICES", all, sizeof all);
	if (!strcmp(all, "none")) return 0;
	int n = 0;
	for (char *save, *s = strtok_r(all, ",", &save); s && n < 8; s = strtok_r(NULL, ",", &save))
		snprintf(list[n++], 64, "%s", s);
	return n;
}

int cuInit(unsigned flags) {
	note("cuInit", "");
	while (number("FAKE_CUDA_STALL", 0)) usleep(500);
	return number("FAKE_CUDA_INIT", 0);
}
int cuDriverGetVersion(int *v) { *v = 13000; return 0; }
int cuDeviceGetCount(int *n) {
	char list[8][64];
	*n = devices(list);
	return *n ? 0 : 100;
}
int cuDeviceGet(int *d, int i) { *d = i; return 0; }
int cuDeviceGetName(char *to, int n, int d) { snprintf(to, n, "Fake GPU"); return 0; }
int cuDeviceGetPCIBusId(char *to, int n, int d) { snprintf(to, n, "0000:%02X:00.0", d + 1); return 0; }
int cuDeviceTotalMem_v2(size_t *n, int d) { *n = 1 << 30; return 0; }
int cuDeviceGetUuid_v2(unsigned char *to, int d) {
	char list[8][64];
	if (d >= devices(list)) return 101;
	int at = 0;
	for (char *s = list[d] + 4; *s && at < 32; s++) {
		if (*s == '-') continue;
		int v = *s <= '9' ? *s - '0' : (*s | 32) - 'a' + 10;
		to[at / 2] = at % 2 ? to[at / 2] | v : v << 4;
		at++;
	}
	return 0;
}
static char contexts[8];
int cuDevicePrimaryCtxRetain(void **c, int d) {
	char list[8][64];
	devices(list);
	note("cuDevicePrimaryCtxRetain", list[d]);
	*c = &contexts[d];
	return number("FAKE_CUDA_CONTEXT", 0);
}
int cuCtxPushCurrent_v2(void *c) {
	if (pushed == 16) return 201;
	stack[pushed++] = c;
	return 0;
}
int cuCtxPopCurrent_v2(void **c) {
	if (!pushed) return 201;
	pushed--;
	if (c) *c = stack[pushed];
	return 0;
}
// fake_depth is the number of contexts that the calling thread has.
int fake_depth(void) { return pushed; }
int cuGetErrorName(int code, const char **s) {
	*s = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : code == 100 ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_FAKE";
	return 0;
}
int cuGetErrorString(int code, const char **s) { *s = "an error of the stand-in"; return 0; }

int cuMemAlloc_v2(uintptr_t *p, size_t n) {
	NEED_CONTEXT;
	if (n > (size_t)number("FAKE_CUDA_MEMORY", 1 << 30)) return 2;
	*p = (uintptr_t)calloc(1, n);
	return *p ? 0 : 2;
}
int cuMemFree_v2(uintptr_t p) { NEED_CONTEXT; free((void *)p); return 0; }

// A stream is a thread that carries out jobs in order.
struct comm;
struct op { int send, peer; char *at; size_t left, total; };
struct job {
	struct job *next;
	void (*run)(struct job *);
	char *to; const char *from; char *owned; size_t n; // copies
	struct event *event; uint64_t mark;
	struct comm *comm; struct op *ops; int count;
	void (*end)(struct job *);
	int type, op; char *tmp; // reductions
};
struct stream { pthread_mutex_t lock; pthread_cond_t more; struct job *head, *tail; atomic_int pending; pthread_t thread; atomic_int stop; };
struct event { atomic_ulong wanted, reached; };

static void *work(void *arg) {
	struct stream *s = arg;
	for (;;) {
		pthread_mutex_lock(&s->lock);
		while (!s->head && !s->stop) pthread_cond_wait(&s->more, &s->lock);
		struct job *j = s->head;
		if (!j) { pthread_mutex_unlock(&s->lock); return NULL; }
		s->head = j->next;
		if (!s->head) s->tail = NULL;
		pthread_mutex_unlock(&s->lock);
		while (number("FAKE_CUDA_HOLD", 0) && !(j->comm && *(atomic_int *)j->comm)) usleep(200);
		j->run(j);
		if (j->end) j->end(j);
		free(j->owned); free(j->ops); free(j->tmp); free(j);
		s->pending--;
	}
}
int cuStreamCreate(struct stream **out, unsigned flags) {
	NEED_CONTEXT;
	struct stream *s = calloc(1, sizeof *s);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->more, NULL);
	*out = s;
	return pthread_create(&s->thread, NULL, work, s) ? 2 : 0;
}
int cuStreamDestroy_v2(struct stream *s) {
	NEED_CONTEXT;
	pthread_mutex_lock(&s->lock);
	s->stop = 1;
	pthread_cond_signal(&s->more);
	pthread_mutex_unlock(&s->lock);
	pthread_detach(s->thread); // and is never freed
	return 0;
}
int cuStreamQuery(struct stream *s) {
	NEED_CONTEXT;
	int e = number("FAKE_CUDA_ERROR", 0);
	return e ? e : s->pending ? 600 : 0;
}
static void put(struct stream *s, struct job *j) {
	pthread_mutex_lock(&s->lock);
	s->pending++;
	if (s->tail) s->tail->next = j; else s->head = j;
	s->tail = j;
	pthread_cond_signal(&s->more);
	pthread_mutex_unlock(&s->lock);
}
static void copy_job(struct job *j) { memmove(j->to, j->from, j->n); }
static void clear_job(struct job *j) { memset(j->to, 0, j->n); }
static void event_job(struct job *j) { j->event->reached = j->mark; }
static struct job *new_job(void (*run)(struct job *)) {
	struct job *j = calloc(1, sizeof *j);
	j->run = run;
	return j;
}
int cuMemcpyHtoDAsync_v2(uintptr_t to, const void *from, size_t n, struct stream *s) {
	NEED_CONTEXT;
	struct job *j = new_job(copy_job);
	j->to = (char *)to; j->n = n;
	j->from = j->owned = memcpy(malloc(n), from, n);
	put(s, j);
	return 0;
}
int cuMemcpyDtoHAsync_v2(void *to, uintptr_t from, size_t n, struct stream *s) {
	NEED_CONTEXT;
	while (s->pending) usleep(20); // as the driver does for memory that is not pinned
	memcpy(to, (void *)from, n);
	return 0;
}
int cuMemcpyDtoDAsync_v2(uintptr_t to, uintptr_t from, size_t n, struct stream *s) {
	NEED_CONTEXT;
	struct job *j = new_job(copy_job);
	j->to = (char *)to; j->from = (char *)from; j->n = n;
	put(s, j);
	return 0;
}
int cuMemsetD8Async(uintptr_t to, unsigned char v, size_t n, struct stream *s) {
	NEED_CONTEXT;
	struct job *j = new_job(clear_job);
	j->to = (char *)to; j->n = n;
	put(s, j);
	return 0;
}
int cuEventCreate(struct event **e, unsigned flags) { NEED_CONTEXT; *e = calloc(1, sizeof **e); return 0; }
int cuEventDestroy_v2(struct event *e) { NEED_CONTEXT; return 0; }
int cuEventRecord(struct event *e, struct stream *s) {
	NEED_CONTEXT;
	struct job *j = new_job(event_job);
	j->event = e;
	j->mark = ++e->wanted;
	put(s, j);
	return 0;
}
int cuEventQuery(struct event *e) { NEED_CONTEXT; return e->reached >= e->wanted ? 0 : 600; }
static void wait_job(struct job *j) { while (j->event->reached < j->mark) usleep(20); }
int cuStreamWaitEvent(struct stream *s, struct event *e, unsigned flags) {
	NEED_CONTEXT;
	struct job *j = new_job(wait_job);
	j->event = e;
	j->mark = e->wanted;
	put(s, j);
	return 0;
}
int cuEventElapsedTime(float *ms, struct event *a, struct event *b) { NEED_CONTEXT; *ms = 1; return 0; }

// libnccl.

#ifndef VERSION
#define VERSION 22809
#endif
#define RANKS 8
#define CHUNK 65536

struct slot { atomic_int full; size_t total; int n; char data[CHUNK]; }; // from a rank to another
struct shared { atomic_int joined; struct slot slots[RANKS][RANKS]; };
struct comm { atomic_int aborted; int rank, size; struct shared *mem; char path[128]; int windows; };
struct id { char path[128]; };

int ncclGetVersion(int *v) { *v = number("FAKE_NCCL_VERSION", VERSION); return 0; }
const char *ncclGetErrorString(int code) { return code == 6 ? "remote process exited or there was a network error" : code == 5 ? "invalid usage" : "unhandled error"; }
const char *ncclGetLastError(struct comm *c) { return "the stand-in says so"; }
int ncclGetUniqueId(struct id *id) {
	static atomic_int serial;
	note("ncclGetUniqueId", "");
	Dl_info me; // the file is beside the library, in a folder that goes with the test
	if (!dladdr((void *)ncclGetUniqueId, &me)) return 2;
	char *end = strrchr(me.dli_fname, '/');
	int n = snprintf(id->path, sizeof id->path, "%.*s/ranks-%d-%d", (int)(end - me.dli_fname), me.dli_fname, getpid(), ++serial);
	if (n >= (int)sizeof id->path) return 2;
	int fd = open(id->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(struct shared))) return 2;
	close(fd);
	return 0;
}
static int join(struct comm **out, int size, struct id *id, int rank) {
	char text[32];
	snprintf(text, sizeof text, "%d of %d", rank, size);
	note("ncclCommInitRank", text);
	if (!current) return 1;
	if (size > RANKS) return 4;
	struct comm *c = calloc(1, sizeof *c);
	c->rank = rank; c->size = size;
	snprintf(c->path, sizeof c->path, "%s", id->path);
	int fd = open(c->path, O_RDWR | O_CLOEXEC);
	if (fd < 0) return 2;
	c->mem = mmap(NULL, sizeof *c->mem, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (c->mem == MAP_FAILED) return 2;
	while (number("FAKE_NCCL_HANG_INIT", -1) == rank) usleep(1000);
	c->mem->joined++;
	while (c->mem->joined < size) usleep(100);
	if (rank == 0) unlink(c->path);
	*out = c;
	return number("NCCL_COMM_BLOCKING", 1) ? 0 : 7;
}
static int config_is_right(const void *config) {
	const uint64_t *size = config;
	const uint32_t *words = config;
	return *size == 24 && words[2] == 0xcafebeef && words[3] == 21400 && words[4] == 1;
}
#ifndef NO_SCALABLE
int ncclCommInitRankScalable(struct comm **out, int size, int rank, int ids, struct id *id, void *config) {
	return ids == 1 && config_is_right(config) ? join(out, size, id, rank) : 4;
}
#endif
int ncclCommInitRankConfig(struct comm **out, int size, struct id id, int rank, void *config) {
	return config_is_right(config) ? join(out, size, &id, rank) : 4;
}
// stall holds a call up until an abort, as NCCL does that waits for other ranks: the one
// that FAKE_NCCL_STALL names.
static void stall(const char *call, struct comm *c) {
	char which[64];
	while (option("FAKE_NCCL_STALL", which, sizeof which) && !strcmp(which, call) && !c->aborted) usleep(500);
}
int ncclCommGetAsyncError(struct comm *c, int *code) { *code = number("FAKE_NCCL_ASYNC", 0); return 0; }
int ncclCommAbort(struct comm *c) { note("ncclCommAbort", ""); c->aborted = 1; return 0; }
int ncclCommFinalize(struct comm *c) { note("ncclCommFinalize", ""); return current ? 0 : 1; }
int ncclCommDestroy(struct comm *c) { note("ncclCommDestroy", ""); return 0; }

// run carries out all ops of a job, each piece by piece.
static void run(struct job *j) {
	struct comm *c = j->comm;
	for (int open = 1; open && !c->aborted;) {
		int moved = open = 0;
		for (int i = 0; i < j->count; i++) {
			struct op *o = &j->ops[i];
			if (!o->left) continue;
			open = 1;
			int earlier = 0; // between two ranks pieces keep their order
			for (int k = 0; k < i; k++) earlier |= j->ops[k].left && j->ops[k].send == o->send && j->ops[k].peer == o->peer;
			if (earlier) continue;
			struct slot *s = o->send ? &c->mem->slots[c->rank][o->peer] : &c->mem->slots[o->peer][c->rank];
			if (o->send == s->full) continue;
			if (o->send) {
				s->n = o->left < CHUNK ? o->left : CHUNK;
				s->total = o->total;
				memcpy(s->data, o->at, s->n);
			} else {
				if (s->total != o->total) continue; // another call: it hangs
				memcpy(o->at, s->data, s->n);
			}
			o->at += s->n;
			o->left -= s->n;
			s->full = o->send;
			moved = 1;
		}
		if (!moved) usleep(20);
	}
}

static size_t size_of(int type) {
	static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
	return sizes[type];
}
#define REDUCE(T) { T *x = (T *)a; const T *y = (const T *)b; for (size_t i = 0; i < n; i++) \
	x[i] = op == 1 ? x[i] * y[i] : op == 2 ? (x[i] > y[i] ? x[i] : y[i]) : op == 3 ? (x[i] < y[i] ? x[i] : y[i]) : x[i] + y[i]; } break
static float from_bf16(uint16_t v) { union { uint32_t u; float f; } x = {(uint32_t)v << 16}; return x.f; }
static uint16_t to_bf16(float f) { union { float f; uint32_t u; } x = {f}; return (x.u + 0x7fff + (x.u >> 16 & 1)) >> 16; }
static void reduce(char *a, const char *b, size_t n, int type, int op) {
	switch (type) {
	case 0: REDUCE(int8_t);
	case 1: REDUCE(uint8_t);
	case 2: REDUCE(int32_t);
	case 3: REDUCE(uint32_t);
	case 4: REDUCE(int64_t);
	case 5: REDUCE(uint64_t);
	case 6: REDUCE(_Float16);
	case 7: REDUCE(float);
	case 8: REDUCE(double);
	case 9: for (size_t i = 0; i < n; i++) {
		float x = from_bf16(((uint16_t *)a)[i]), y = from_bf16(((uint16_t *)b)[i]);
		((uint16_t *)a)[i] = to_bf16(op == 1 ? x * y : op == 2 ? (x > y ? x : y) : op == 3 ? (x < y ? x : y) : x + y);
	}
	}
}
static void divide(char *a, size_t n, int type, int by) {
	for (size_t i = 0; i < n; i++) switch (type) {
	case 0: ((int8_t *)a)[i] /= by; break;
	case 1: ((uint8_t *)a)[i] /= by; break;
	case 2: ((int32_t *)a)[i] /= by; break;
	case 3: ((uint32_t *)a)[i] /= by; break;
	case 4: ((int64_t *)a)[i] /= by; break;
	case 5: ((uint64_t *)a)[i] /= by; break;
	case 6: ((_Float16 *)a)[i] /= by; break;
	case 7: ((float *)a)[i] /= by; break;
	case 8: ((double *)a)[i] /= by; break;
	case 9: ((uint16_t *)a)[i] = to_bf16(from_bf16(((uint16_t *)a)[i]) / by); break;
	}
}
// finish reduces what came from all ranks, in rank order, into the result.
static void finish(struct job *j) {
	if (j->comm->aborted || !j->to) return;
	size_t part = j->n * size_of(j->type);
	for (int r = 1; r < j->comm->size; r++) reduce(j->tmp, j->tmp + r * part, j->n, j->type, j->op);
	if (j->op == 4) divide(j->tmp, j->n, j->type, j->comm->size);
	memcpy(j->to, j->tmp, part);
}

static struct job *comm_job(struct comm *c, int ops) {
	struct job *j = new_job(run);
	j->comm = c;
	j->ops = calloc(ops ? ops : 1, sizeof *j->ops);
	return j;
}
static void add(struct job *j, int send, int peer, const void *at, size_t n) {
	j->ops[j->count++] = (struct op){send, peer, (char *)at, n, n};
}

// A group collects the messages of a thread.
static __thread int depth;
static __thread struct { struct op op; struct comm *comm; struct stream *stream; } group[256];
static __thread int grouped;

int ncclGroupStart(void) { depth++; return 0; }
static int flush(void) {
	int n = grouped;
	grouped = 0;
	if (!n) return 0;
	struct job *j = comm_job(group[0].comm, n);
	for (int i = 0; i < n; i++) j->ops[j->count++] = group[i].op;
	put(group[0].stream, j);
	return 0;
}
int ncclGroupEnd(void) { return --depth ? 0 : flush(); }
static int message(int send, const void *at, size_t n, int type, int peer, struct comm *c, struct stream *s) {
	if (!current) return 1;
	stall(send ? "ncclSend" : "ncclRecv", c);
	if (c->aborted) return 6;
	int bad = number(send ? "FAKE_NCCL_SEND" : "FAKE_NCCL_RECV", 0);
	if (bad) return bad;
	if (grouped == 256 || peer < 0 || peer >= c->size) return 4;
	group[grouped].op = (struct op){send, peer, (char *)at, n * size_of(type), n * size_of(type)};
	group[grouped].comm = c;
	group[grouped++].stream = s;
	return depth ? 0 : flush();
}
static void count_note(const char *what, size_t n) {
	char text[32];
	snprintf(text, sizeof text, "%zu", n);
	note(what, text);
}
int ncclSend(const void *p, size_t n, int type, int peer, struct comm *c, struct stream *s) { count_note("ncclSend", n); return message(1, p, n, type, peer, c, s); }
int ncclRecv(void *p, size_t n, int type, int peer, struct comm *c, struct stream *s) { count_note("ncclRecv", n); return message(0, p, n, type, peer, c, s); }

// reduction puts a call into the stream in which part p of each rank's source goes to rank
// p, or all of it to every rank with to[p].
static int reduction(const char *src, size_t step, char *dst, size_t n, int type, int op, int root, struct comm *c, struct stream *s) {
	if (!current) return 1;
	if (!n) return 0;
	size_t bytes = n * size_of(type);
	struct job *j = comm_job(c, 2 * c->size);
	j->tmp = malloc(bytes * c->size);
	for (int r = 0; r < c->size; r++) {
		if (root < 0 || r == root) add(j, 1, r, src + r * step, bytes);
		if (root < 0 || c->rank == root) add(j, 0, r, j->tmp + r * bytes, bytes);
	}
	if (root < 0 || c->rank == root) j->to = dst;
	j->n = n; j->type = type; j->op = op; j->end = finish;
	put(s, j);
	return 0;
}
int ncclAllReduce(const void *src, void *dst, size_t n, int type, int op, struct comm *c, struct stream *s) {
	count_note("ncclAllReduce", n);
	stall("ncclAllReduce", c);
	return reduction(src, 0, dst, n, type, op, -1, c, s);
}
int ncclReduce(const void *src, void *dst, size_t n, int type, int op, int root, struct comm *c, struct stream *s) {
	count_note("ncclReduce", n);
	return reduction(src, 0, dst, n, type, op, root, c, s);
}
int ncclReduceScatter(const void *src, void *dst, size_t n, int type, int op, struct comm *c, struct stream *s) {
	count_note("ncclReduceScatter", n);
	return reduction(src, n * size_of(type), dst, n, type, op, -1, c, s);
}
int ncclBroadcast(const void *src, void *dst, size_t n, int type, int root, struct comm *c, struct stream *s) {
	count_note("ncclBroadcast", n);
	if (!current) return 1;
	size_t bytes = n * size_of(type);
	struct job *j = comm_job(c, c->size + 1);
	if (c->rank == root)
		for (int r = 0; r < c->size; r++) add(j, 1, r, src, bytes);
	add(j, 0, root, dst, bytes);
	put(s, j);
	return 0;
}
int ncclAllGather(const void *src, void *dst, size_t n, int type, struct comm *c, struct stream *s) {
	count_note("ncclAllGather", n);
	if (!current) return 1;
	size_t bytes = n * size_of(type);
	struct job *j = comm_job(c, 2 * c->size);
	for (int r = 0; r < c->size; r++) {
		add(j, 1, r, src, bytes);
		add(j, 0, r, (char *)dst + r * bytes, bytes);
	}
	put(s, j);
	return 0;
}
int ncclMemAlloc(void **p, size_t n) {
	if (!current) return 1;
	if (n > (size_t)number("FAKE_CUDA_MEMORY", 1 << 30)) return 1;
	*p = malloc(n);
	memset(*p, 0xa5, n);
	return 0;
}
int ncclMemFree(void *p) { note("ncclMemFree", ""); free(p); return 0; }
#ifndef NO_WINDOWS
int ncclCommWindowRegister(struct comm *c, void *p, size_t n, void **window, int flags) {
	count_note("ncclCommWindowRegister", n);
	*window = p;
	if (c->aborted) note("use after abort", "");
	stall("ncclCommWindowRegister", c);
	return flags == 1 && current && !c->aborted ? 0 : 1;
}
int ncclCommWindowDeregister(struct comm *c, void *window) { note("ncclCommWindowDeregister", ""); return 0; }
#endif
