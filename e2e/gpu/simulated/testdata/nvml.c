/* The library of collect/gpu, with one process: the one of which $RT_SIMULATED_PID names the file with its id. */
#define nvmlDeviceGetComputeRunningProcesses_v3 replacedProcesses
#define nvmlDeviceGetProcessUtilization replacedUtilization
#include "../../../../collect/gpu/testdata/nvml/nvml.c"
#undef nvmlDeviceGetComputeRunningProcesses_v3
#undef nvmlDeviceGetProcessUtilization
#include <stdlib.h>

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

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t d, unsigned int *n, nvmlProcessInfo_t *p) {
	unsigned int room = *n, pid = loadPID();
	*n = which(d) == 0 && pid != 0;
	if (room < *n)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	if (*n == 1) {
		memset(p, 0, sizeof *p);
		p->pid = pid;
		p->usedGpuMemory = 600ull << 20;
	}
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t d, nvmlProcessUtilizationSample_t *u, unsigned int *n, unsigned long long since) {
	unsigned int room = *n;
	*n = 1;
	if (u == NULL || room < 1)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	memset(u, 0, sizeof *u);
	u->pid = loadPID();
	u->timeStamp = since + 1000;
	u->smUtil = 60;
	return NVML_SUCCESS;
}
