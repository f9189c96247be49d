/* The library of collect/gpu, with one process, whose id is in the file that $RT_SIMULATED_PID names.
 * $RT_STUB is a case: "mig" divides GPU 0, "mps" makes the process a client of a server, "zero" has no sample,
 * "samples" has samples of utilization, "peak" accounts for processes. */
#define nvmlDeviceGetComputeRunningProcesses_v3 replacedProcesses
#define nvmlDeviceGetProcessUtilization replacedUtilization
#define nvmlDeviceGetMigMode replacedMode
#define nvmlDeviceGetMaxMigDeviceCount replacedCount
#define nvmlDeviceGetMigDeviceHandleByIndex replacedHandle
#define nvmlDeviceGetUtilizationRates replacedRates
#include "../../../../collect/gpu/testdata/nvml/nvml.c"
#undef nvmlDeviceGetComputeRunningProcesses_v3
#undef nvmlDeviceGetProcessUtilization
#undef nvmlDeviceGetMigMode
#undef nvmlDeviceGetMaxMigDeviceCount
#undef nvmlDeviceGetMigDeviceHandleByIndex
#undef nvmlDeviceGetUtilizationRates
#include <stdlib.h>
#include <time.h>

static int is(const char *name) {
	const char *stub = getenv("RT_STUB");
	return stub != NULL && strcmp(stub, name) == 0;
}

static unsigned int loadPID(void) {
	unsigned int pid = 0;
	const char *name = getenv("RT_SIMULATED_PID");
	FILE *f = name ? fopen(name, "r") : NULL;
	if (f == NULL)
		return 0;
	if (fscanf(f, "%u", &pid) != 1)
		pid = 0;
	fclose(f);
	return pid;
}

/* The instance of GPU 0 has the number 8. */
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned int *now, unsigned int *next) {
	*now = *next = is("mig") && which(d) == 0 ? NVML_DEVICE_MIG_ENABLE : NVML_DEVICE_MIG_DISABLE;
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t d, unsigned int *n) { *n = 7; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t d, unsigned int i, nvmlDevice_t *m) {
	if (i != 0)
		return NVML_ERROR_NOT_FOUND;
	m->handle = (void *)(size_t)9;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t d, unsigned int *id) { *id = 7; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t d, unsigned int *id) { *id = 0; return NVML_SUCCESS; }

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t d, nvmlUtilization_t *u) {
	u->gpu = which(d) == 0 ? 75 : 0;
	u->memory = 3;
	return is("mig") && which(d) != 1 ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

static nvmlReturn_t list(int has, unsigned int *n, nvmlProcessInfo_t *p, unsigned int pid, unsigned long long bytes) {
	unsigned int room = *n;
	*n = has && pid != 0;
	if (room < *n)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	if (*n == 1) {
		memset(p, 0, sizeof *p);
		p->pid = pid;
		p->usedGpuMemory = bytes << 20;
	}
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t d, unsigned int *n, nvmlProcessInfo_t *p) {
	if (is("mps"))
		return list(which(d) == 0, n, p, 1, 30); /* the server */
	return list(which(d) == (is("mig") ? 8 : 0), n, p, loadPID(), 600);
}
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t d, unsigned int *n, nvmlProcessInfo_t *p) {
	return list(is("mps") && which(d) == 0, n, p, loadPID(), 600);
}
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t d, unsigned int *n, nvmlProcessInfo_t *p) { return list(0, n, p, 0, 0); }

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t d, nvmlProcessUtilizationSample_t *u, unsigned int *n, unsigned long long since) {
	unsigned int room = *n;
	*n = is("zero") ? 0 : 1;
	if (u == NULL || room < 1)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	memset(u, 0, sizeof *u);
	u->pid = loadPID();
	u->timeStamp = since + 1000;
	u->smUtil = 60;
	return NVML_SUCCESS;
}

/* 30 % of the time 100 %, in samples of 0.1 s. */
nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t d, nvmlSamplingType_t type, unsigned long long since, nvmlValueType_t *of, unsigned int *n, nvmlSample_t *s) {
	unsigned long long now = (unsigned long long)time(NULL) * 1000000, from;
	unsigned int count = 0;
	if (!is("samples") && !is("zero"))
		return NVML_ERROR_NOT_SUPPORTED;
	from = since < now - 10000000 ? now - 10000000 : since;
	if (is("zero") || from >= now)
		return NVML_ERROR_NOT_FOUND;
	*of = NVML_VALUE_TYPE_UNSIGNED_INT;
	for (from += 100000; from <= now; from += 100000, count++)
		if (s != NULL && count < *n) {
			s[count].timeStamp = from;
			s[count].sampleValue.uiVal = from / 100000 % 10 < 3 ? 100 : 0;
		}
	*n = count;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAccountingMode(nvmlDevice_t d, nvmlEnableState_t *mode) { *mode = is("peak") ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetAccountingStats(nvmlDevice_t d, unsigned int pid, nvmlAccountingStats_t *a) {
	memset(a, 0, sizeof *a);
	a->maxMemoryUsage = 70ull << 30;
	a->isRunning = 1;
	return NVML_SUCCESS;
}
