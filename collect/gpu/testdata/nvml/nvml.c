/* A driver's library that says what is written here, built with NVIDIA's own header:
 * two GPUs, the second one without utilization, and two processes on the first. */
#include <stdio.h>
#include <string.h>
#include "nvml.h"

static int which(nvmlDevice_t d) { return (int)(size_t)d.handle - 1; }

nvmlReturn_t nvmlInit_v2(void) { return NVML_SUCCESS; }
nvmlReturn_t nvmlInitWithFlags(unsigned int flags) { return NVML_SUCCESS; }
nvmlReturn_t nvmlShutdown(void) { return NVML_SUCCESS; }
const char *nvmlErrorString(nvmlReturn_t r) { return "stub"; }

nvmlReturn_t nvmlSystemGetDriverVersion(char *v, unsigned int n) { snprintf(v, n, "570.1"); return NVML_SUCCESS; }
nvmlReturn_t nvmlSystemGetNVMLVersion(char *v, unsigned int n) { snprintf(v, n, "12.570.1"); return NVML_SUCCESS; }
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *v) { *v = 12080; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *n) { *n = 2; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int i, nvmlDevice_t *d) { d->handle = (void *)(size_t)(i + 1); return NVML_SUCCESS; }

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *v, unsigned int n) { snprintf(v, n, "GPU-stub-%d", which(d)); return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *v, unsigned int n) { snprintf(v, n, "Stub %d", which(d)); return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t d, unsigned int *n) { *n = 16896; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t d, unsigned int *n) { *n = 1 - which(d); return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t *p) {
	memset(p, 0, sizeof *p);
	snprintf(p->busId, sizeof p->busId, "00000000:%02X:00.0", 0x41 + which(d));
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned int *now, unsigned int *next) { *now = *next = NVML_DEVICE_MIG_DISABLE; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t d, unsigned int *n) { *n = 0; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t d, unsigned int i, nvmlDevice_t *m) { return NVML_ERROR_NOT_FOUND; }

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t d, nvmlUtilization_t *u) {
	u->gpu = 75;
	u->memory = 3;
	return which(d) == 0 ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *m) { m->total = 80ull << 30; m->used = 3ull << 30; m->free = m->total - m->used; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t d, nvmlMemory_v2_t *m) {
	if (m->version != nvmlMemory_v2)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	m->total = 80ull << 30;
	m->reserved = 1ull << 30;
	m->used = 2ull << 30;
	m->free = 77ull << 30;
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t d, nvmlTemperatureSensors_t s, unsigned int *t) { *t = 41; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t d, unsigned int *mw) { *mw = 251500; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t d, unsigned long long *mj) { static unsigned long long used = 5000; *mj = used += 250; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t d, nvmlClockType_t c, unsigned int *mhz) { *mhz = c == NVML_CLOCK_GRAPHICS ? 1980 : 1; return NVML_SUCCESS; }

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t d, unsigned int *n, nvmlProcessInfo_t *p) {
	unsigned int room = *n;
	*n = which(d) == 0 ? 2 : 0;
	if (room < *n)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (unsigned int i = 0; i < *n; i++) {
		memset(&p[i], 0, sizeof p[i]);
		p[i].pid = 100 + i;
		p[i].usedGpuMemory = (i + 1ull) << 20;
	}
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t d, nvmlProcessUtilizationSample_t *u, unsigned int *n, unsigned long long since) {
	unsigned int room = *n;
	*n = 1;
	if (u == NULL || room < 1)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	memset(u, 0, sizeof *u);
	u->pid = 100;
	u->timeStamp = 5000;
	u->smUtil = 60;
	return NVML_SUCCESS;
}
