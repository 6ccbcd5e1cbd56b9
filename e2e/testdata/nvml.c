/* A driver library without a driver, for the e2e tests of gorun: it answers
   what launch/device asks, as /etc/fake-nvml says:

     gpus N      number of GPUs (default 0)
     host TEXT   part of the UUIDs
     broken N    GPU whose handle cannot be had
     init N      error code of nvmlInit, such as 18 for a version mismatch
     sleep N     seconds that nvmlInit takes
     busy N PID  a process that computes on GPU N
     surveys F   file that gets a byte for each process that asks everything
     live FILE   more that may change at any time: lines "busy N PID", and "xid N
                 CODE" for an error of GPU N, told once to each process that waits
*/
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int gpus, broken = -1, init, delay, busy = -1, busy_pid;
static char host[32] = "0000", live[256], surveys[256];

static void configure(void) {
	FILE *f = fopen("/etc/fake-nvml", "r");
	char key[32];
	if (!f) return;
	while (fscanf(f, "%31s", key) == 1) {
		if (!strcmp(key, "gpus") && fscanf(f, "%d", &gpus) != 1) break;
		if (!strcmp(key, "host") && fscanf(f, "%31s", host) != 1) break;
		if (!strcmp(key, "broken") && fscanf(f, "%d", &broken) != 1) break;
		if (!strcmp(key, "init") && fscanf(f, "%d", &init) != 1) break;
		if (!strcmp(key, "sleep") && fscanf(f, "%d", &delay) != 1) break;
		if (!strcmp(key, "live") && fscanf(f, "%255s", live) != 1) break;
		if (!strcmp(key, "surveys") && fscanf(f, "%255s", surveys) != 1) break;
		if (!strcmp(key, "busy") && fscanf(f, "%d %d", &busy, &busy_pid) != 2) break;
	}
	fclose(f);
}

int nvmlInit_v2(void) {
	configure();
	if (delay) sleep(delay);
	return init;
}
int nvmlInit(void) { return nvmlInit_v2(); }
int nvmlInitWithFlags(unsigned flags) { return nvmlInit_v2(); }
int nvmlShutdown(void) { return 0; }

const char *nvmlErrorString(int code) {
	switch (code) {
	case 0: return "Success";
	case 15: return "GPU is lost";
	case 18: return "Driver/library version mismatch";
	default: return "Unknown Error";
	}
}

static int text(char *to, unsigned size, const char *what) {
	if (strlen(what) >= size) return 7; /* NVML_ERROR_INSUFFICIENT_SIZE */
	strcpy(to, what);
	return 0;
}

int nvmlSystemGetNVMLVersion(char *v, unsigned size) { return text(v, size, "12.550.54.15"); }
int nvmlSystemGetDriverVersion(char *v, unsigned size) { return text(v, size, "550.54.15"); }

int nvmlDeviceGetCount_v2(unsigned *n) { *n = gpus; return 0; }

int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **device) {
	if ((int)i == broken) return 15;
	*device = (void *)(unsigned long)(i + 1);
	return 0;
}

static int index_of(void *device) { return (int)(unsigned long)device - 1; }

int nvmlDeviceGetUUID(void *device, char *v, unsigned size) {
	char uuid[96];
	snprintf(uuid, sizeof uuid, "GPU-%s-%04d", host, index_of(device));
	return text(v, size, uuid);
}

int nvmlDeviceGetName(void *device, char *v, unsigned size) { return text(v, size, "NVIDIA H100 80GB HBM3"); }

struct pci {
	char old[16];
	unsigned domain, bus, device, id, subsystem;
	char bus_id[32];
};

int nvmlDeviceGetPciInfo_v3(void *device, struct pci *p) {
	memset(p, 0, sizeof *p);
	p->bus = 0x1a + index_of(device);
	snprintf(p->bus_id, sizeof p->bus_id, "00000000:%02X:00.0", p->bus);
	return 0;
}

struct process {
	unsigned pid;
	unsigned long long memory;
	unsigned gpu_instance, compute_instance;
};

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *n, struct process *p) {
	struct process all[64];
	unsigned count = 0;
	if (index_of(device) == busy) all[count++] = (struct process){.pid = busy_pid, .memory = 61ull << 30};
	FILE *f = live[0] ? fopen(live, "r") : 0;
	char line[128];
	int at, pid;
	while (f && fgets(line, sizeof line, f)) {
		if (sscanf(line, "busy %d %d", &at, &pid) == 2 && at == index_of(device) && count < 64)
			all[count++] = (struct process){.pid = pid, .memory = 1ull << 30};
	}
	if (f) fclose(f);
	unsigned room = *n;
	*n = count;
	if (room < count) return 7;
	memcpy(p, all, count * sizeof *all);
	return 0;
}

int nvmlDeviceGetMinorNumber(void *device, unsigned *n) { *n = index_of(device); return 0; }
int nvmlDeviceGetPersistenceMode(void *device, unsigned *mode) { *mode = 1; return 0; }
int nvmlDeviceGetComputeMode(void *device, unsigned *mode) { *mode = 0; return 0; }
int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) { *major = 9; *minor = 0; return 0; }

struct memory { unsigned long long total, free, used; };

int nvmlDeviceGetMemoryInfo(void *device, struct memory *m) {
	FILE *f = surveys[0] && index_of(device) == 0 ? fopen(surveys, "a") : 0;
	if (f) {
		fputc('.', f);
		fclose(f);
	}
	*m = (struct memory){80ull << 30, 80ull << 30, 0};
	return 0;
}

/* What this GPU does not have: NVML_ERROR_NOT_SUPPORTED. */
int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *pending) { return 3; }
int nvmlDeviceGetEccMode(void *device, unsigned *now, unsigned *pending) { return 3; }
int nvmlDeviceGetTotalEccErrors(void *device, unsigned type, unsigned counter, unsigned long long *n) { return 3; }
int nvmlDeviceGetRetiredPagesPendingStatus(void *device, unsigned *pending) { return 3; }
int nvmlDeviceGetRemappedRows(void *device, unsigned *a, unsigned *b, unsigned *c, unsigned *d) { return 3; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *mask) { return 3; }
int nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *state) { return 3; }

/* Events: Xids of the live file. */
struct event {
	void *device;
	unsigned long long type, data;
	unsigned gpu_instance, compute_instance;
};

static int told; /* lines "xid" that were told */

int nvmlEventSetCreate(void **set) { *set = &told; return 0; }
int nvmlEventSetFree(void *set) { return 0; }
int nvmlDeviceGetSupportedEventTypes(void *device, unsigned long long *types) { *types = 8; return 0; }
int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set) { return 0; }

int nvmlEventSetWait_v2(void *set, struct event *e, unsigned ms) {
	for (unsigned waited = 0; waited < ms; waited += 20) {
		FILE *f = live[0] ? fopen(live, "r") : 0;
		char line[128];
		int at, seen = 0;
		unsigned long long code;
		while (f && fgets(line, sizeof line, f)) {
			if (sscanf(line, "xid %d %llu", &at, &code) != 2 || seen++ < told) continue;
			told++;
			*e = (struct event){(void *)(unsigned long)(at + 1), 8, code, 0xFFFFFFFF, 0xFFFFFFFF};
			fclose(f);
			return 0;
		}
		if (f) fclose(f);
		usleep(20000);
	}
	return 10; /* NVML_ERROR_TIMEOUT */
}
