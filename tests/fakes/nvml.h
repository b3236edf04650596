/* The part of NVML that is faked, declared here: CUDA's toolkit does not always come with nvml.h,
 * and whoever uses NVML loads it at run time. Layouts and numbers are those of NVIDIA's NVML
 * reference. */
#ifndef FAKE_NVML_H
#define FAKE_NVML_H

enum {
    NVML_OK = 0,
    NVML_UNINITIALIZED = 1,
    NVML_INVALID_ARGUMENT = 2,
    NVML_NOT_SUPPORTED = 3,
    NVML_NOT_FOUND = 6,
    NVML_INSUFFICIENT_SIZE = 7,
    NVML_TIMEOUT = 10,
    NVML_GPU_IS_LOST = 15,
};

enum {
    NVML_EVENT_XID = 8, /* nvmlEventTypeXidCriticalError */
    NVML_CLOCK_GRAPHICS = 0,
    NVML_CLOCK_SM = 1,
    NVML_CLOCK_MEM = 2,
};

struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml_memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

struct nvml_utilization {
    unsigned gpu, memory; /* % */
};

struct nvml_pci {
    char bus_id_legacy[16];
    unsigned domain, bus, device;
    unsigned device_id, subsystem_id;
    char bus_id[32];
};

struct nvml_event {
    void *device;
    unsigned long long type;
    unsigned long long data; /* of an Xid: its number */
    unsigned gpu_instance, compute_instance;
};

int nvmlInit_v2(void);
int nvmlInitWithFlags(unsigned flags);
int nvmlShutdown(void);
const char *nvmlErrorString(int result);
int nvmlSystemGetDriverVersion(char *out, unsigned room);
int nvmlSystemGetNVMLVersion(char *out, unsigned room);
int nvmlSystemGetCudaDriverVersion_v2(int *version);
int nvmlDeviceGetCount_v2(unsigned *n);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device);
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device);
int nvmlDeviceGetIndex(void *device, unsigned *index);
int nvmlDeviceGetName(void *device, char *out, unsigned room);
int nvmlDeviceGetUUID(void *device, char *out, unsigned room);
int nvmlDeviceGetPciInfo_v3(void *device, struct nvml_pci *out);
int nvmlDeviceGetMemoryInfo(void *device, struct nvml_memory *out);
int nvmlDeviceGetMemoryInfo_v2(void *device, struct nvml_memory_v2 *out);
int nvmlDeviceGetUtilizationRates(void *device, struct nvml_utilization *out);
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius);
int nvmlDeviceGetTemperatureThreshold(void *device, int which, unsigned *celsius);
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatt);
int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatt);
int nvmlDeviceGetPowerManagementLimit(void *device, unsigned *milliwatt);
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoule);
int nvmlDeviceGetClockInfo(void *device, int clock, unsigned *mhz);
int nvmlDeviceGetMaxClockInfo(void *device, int clock, unsigned *mhz);
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons);
int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *reasons);
int nvmlDeviceGetPerformanceState(void *device, int *state);
int nvmlDeviceGetFanSpeed(void *device, unsigned *percent);
int nvmlDeviceGetEccMode(void *device, int *current, int *pending);
int nvmlDeviceGetTotalEccErrors(void *device, int error, int counter, unsigned long long *n);
int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending);
int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor);
int nvmlDeviceGetSupportedEventTypes(void *device, unsigned long long *types);
int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set);
int nvmlEventSetCreate(void **set);
int nvmlEventSetWait_v2(void *set, struct nvml_event *event, unsigned timeout_ms);
int nvmlEventSetFree(void *set);

#endif
