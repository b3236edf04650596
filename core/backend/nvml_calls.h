/* NVML's functions as bstune uses them, with their types spelt out (nvml.h of the driver's
 * development files, stable since 2013: new forms get new names). Private to core/backend/nvml*.c.
 */
#ifndef BST_BACKEND_NVML_CALLS_H
#define BST_BACKEND_NVML_CALLS_H

#include "core/backend/nvml.h"

typedef void *nvml_handle;

/* nvmlReturn_t */
enum {
    NVML_OK = 0,
    NVML_NO_PERMISSION = 4,
    NVML_DRIVER_NOT_LOADED = 9,
    NVML_GPU_IS_LOST = 15,
    NVML_OPERATING_SYSTEM = 17,
    NVML_VERSION_MISMATCH = 18,
};

enum {
    NVML_CLOCK_SM = 1,
    NVML_CLOCK_MEM = 2,
    NVML_TEMPERATURE_GPU = 0,
    NVML_ECC_CORRECTED = 0,
    NVML_ECC_UNCORRECTED = 1,
    NVML_ECC_VOLATILE = 0,
    NVML_EVENT_XID = 8,
};

struct nvml_memory {
    unsigned long long total, free, used; /* used: with what the driver keeps */
};

struct nvml_memory2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};
#define NVML_MEMORY2_VERSION ((unsigned)(sizeof(struct nvml_memory2) | 2u << 24))

struct nvml_utilisation {
    unsigned gpu, memory; /* per cent */
};

struct nvml_event {
    nvml_handle device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};

/* X(name without "nvml", arguments). The first four must be there; what else a driver lacks is not
 * supported by it. */
#define NVML_CALLS(X)                                                                              \
    X(Init_v2, (void))                                                                             \
    X(Shutdown, (void))                                                                            \
    X(DeviceGetCount_v2, (unsigned *n))                                                            \
    X(DeviceGetHandleByIndex_v2, (unsigned i, nvml_handle *d))                                     \
    X(SystemGetDriverVersion, (char *text, unsigned room))                                         \
    X(SystemGetCudaDriverVersion_v2, (int *version))                                               \
    X(DeviceGetUUID, (nvml_handle d, char *text, unsigned room))                                   \
    X(DeviceGetName, (nvml_handle d, char *text, unsigned room))                                   \
    X(DeviceGetMigMode, (nvml_handle d, unsigned *now, unsigned *then))                            \
    X(DeviceGetMaxMigDeviceCount, (nvml_handle d, unsigned *n))                                    \
    X(DeviceGetMigDeviceHandleByIndex, (nvml_handle d, unsigned i, nvml_handle *instance))         \
    X(DeviceGetEccMode, (nvml_handle d, int *now, int *then))                                      \
    X(DeviceGetTotalEccErrors, (nvml_handle d, int type, int counter, unsigned long long *n))      \
    X(DeviceGetMemoryInfo, (nvml_handle d, struct nvml_memory * m))                                \
    X(DeviceGetMemoryInfo_v2, (nvml_handle d, struct nvml_memory2 * m))                            \
    X(DeviceGetUtilizationRates, (nvml_handle d, struct nvml_utilisation * u))                     \
    X(DeviceGetClockInfo, (nvml_handle d, int clock, unsigned *mhz))                               \
    X(DeviceGetPowerUsage, (nvml_handle d, unsigned *mw))                                          \
    X(DeviceGetEnforcedPowerLimit, (nvml_handle d, unsigned *mw))                                  \
    X(DeviceGetTemperature, (nvml_handle d, int sensor, unsigned *celsius))                        \
    X(DeviceGetCurrentClocksEventReasons, (nvml_handle d, unsigned long long *bits))               \
    X(DeviceGetCurrentClocksThrottleReasons, (nvml_handle d, unsigned long long *bits))            \
    X(EventSetCreate, (nvml_handle * set))                                                         \
    X(EventSetFree, (nvml_handle set))                                                             \
    X(DeviceRegisterEvents, (nvml_handle d, unsigned long long types, nvml_handle set))            \
    X(EventSetWait_v2, (nvml_handle set, struct nvml_event * e, unsigned timeout_ms))

struct nvml_calls {
#define X(name, args) int(*name) args;
    NVML_CALLS(X)
#undef X
};

/* A call that the driver lacks counts as one that the device does not support. */
#define NVML_CALL(n, name, ...) ((n)->call.name ? (n)->call.name(__VA_ARGS__) : -1)

struct bst_nvml {
    void *library;
    struct nvml_calls call;
    char driver[80];
    int cuda;
    int n_devices;
    nvml_handle handles[BST_NVML_DEVICES];
    struct bst_nvml_identity devices[BST_NVML_DEVICES];
};

#endif
