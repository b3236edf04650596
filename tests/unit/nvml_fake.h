/* How the fake NVML behaves; see nvml_fake.c. */
#ifndef TESTS_UNIT_NVML_FAKE_H
#define TESTS_UNIT_NVML_FAKE_H

struct nvml_fake {
    int init_error, lost, no_events;
    unsigned busy; /* per cent */
};

void nvml_fake_set(const struct nvml_fake *next);
int nvml_fake_open(void); /* initialisations less shutdowns */
int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned *n);
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d);
int nvmlSystemGetDriverVersion(char *text, unsigned room);
int nvmlSystemGetCudaDriverVersion_v2(int *version);
int nvmlDeviceGetUUID(void *d, char *text, unsigned room);
int nvmlDeviceGetName(void *d, char *text, unsigned room);
int nvmlDeviceGetMigMode(void *d, unsigned *now, unsigned *then);
int nvmlDeviceGetMaxMigDeviceCount(void *d, unsigned *n);
int nvmlDeviceGetMigDeviceHandleByIndex(void *d, unsigned i, void **instance);
int nvmlDeviceGetEccMode(void *d, int *now, int *then);
int nvmlDeviceGetTotalEccErrors(void *d, int type, int counter, unsigned long long *n);
int nvmlDeviceGetMemoryInfo(void *d, unsigned long long m[3]);
struct memory2;
int nvmlDeviceGetMemoryInfo_v2(void *d, struct memory2 *m);
int nvmlDeviceGetUtilizationRates(void *d, unsigned u[2]);
int nvmlDeviceGetClockInfo(void *d, int clock, unsigned *mhz);
int nvmlDeviceGetPowerUsage(void *d, unsigned *mw);
int nvmlDeviceGetEnforcedPowerLimit(void *d, unsigned *mw);
int nvmlDeviceGetTemperature(void *d, int sensor, unsigned *celsius);
int nvmlDeviceGetCurrentClocksThrottleReasons(void *d, unsigned long long *bits);
int nvmlEventSetCreate(void **set);
int nvmlEventSetFree(void *set);
int nvmlDeviceRegisterEvents(void *d, unsigned long long types, void *set);
struct event;
int nvmlEventSetWait_v2(void *set, struct event *e, unsigned timeout_ms);

#endif
