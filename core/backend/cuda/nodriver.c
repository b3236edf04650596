/* libcuda_plan.so: what stands for NVIDIA's driver, by its name, where there is none. cuDNN
 * compiles some plans while they are made, and hands the code to the driver to learn of its
 * registers and shared memory; without a driver it would have no such plan, and memory for a GPU
 * that is not here would be planned for another way round. This one takes the code and says of
 * every kernel what is least in the way; it knows no device, and nothing runs. Types are the
 * driver's in size alone. */
#include <stddef.h>

enum { OK = 0, NO_DEVICE = 100 };
enum { MAX_THREADS = 0, REGISTERS = 4 }; /* attributes of a function that are asked for */

static char something[64];

#pragma GCC visibility push(default)

/* clang-format off */
/* Calls that give a handle as their first argument's value. */
#define HANDLES(X) \
    X(cuKernelGetFunction) X(cuLibraryGetKernel) X(cuLibraryGetModule) X(cuLibraryLoadData) \
    X(cuModuleGetFunction) X(cuModuleLoadData) X(cuModuleLoadDataEx)
/* Calls that there is nothing to do for. */
#define NOTHING(X) \
    X(cuFuncSetAttribute) X(cuFuncSetCacheConfig) X(cuInit) X(cuKernelSetAttribute) \
    X(cuLibraryUnload) X(cuModuleUnload)
/* Calls that there has to be a device for. */
#define REFUSED(X) \
    X(cuCtxGetCurrent) X(cuCtxGetDevice) X(cuCtxGetLimit) X(cuCtxPopCurrent) X(cuCtxPushCurrent) \
    X(cuDeviceGet) X(cuDeviceGetAttribute) X(cuDevicePrimaryCtxRelease) \
    X(cuDevicePrimaryCtxReset) X(cuDevicePrimaryCtxRetain) X(cuGetExportTable) \
    X(cuGetProcAddress) X(cuGetProcAddress_v2) X(cuLaunchCooperativeKernel) X(cuLaunchKernel) \
    X(cuLaunchKernelEx) X(cuLibraryLoadFromFile) X(cuLinkAddData) X(cuLinkAddData_v2) \
    X(cuLinkAddFile_v2) X(cuLinkComplete) X(cuLinkCreate) X(cuLinkCreate_v2) X(cuLinkDestroy) \
    X(cuMemcpyDtoH_v2) X(cuModuleGetGlobal_v2) X(cuModuleLoadFatBinary) X(cuStreamGetCtx) \
    X(cuStreamSynchronize) X(cuTensorMapEncodeTiled)
/* Calls whose first argument's value is one number. */
#define NUMBERS(X) \
    X(cuDeviceGetCount, 0) X(cuDriverGetVersion, 13000) X(cuLibraryGetKernelCount, 1) \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor, 1) \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 1) \
    X(cuOccupancyMaxActiveClusters, 1) X(cuOccupancyMaxPotentialClusterSize, 8)
/* clang-format on */

#define X(name)                                                                                    \
    int name(void **out);                                                                          \
    int name(void **out)                                                                           \
    {                                                                                              \
        *out = something;                                                                          \
        return OK;                                                                                 \
    }
HANDLES(X)
#undef X

#define X(name)                                                                                    \
    int name(void);                                                                                \
    int name(void)                                                                                 \
    {                                                                                              \
        return OK;                                                                                 \
    }
NOTHING(X)
#undef X

#define X(name)                                                                                    \
    int name(void);                                                                                \
    int name(void)                                                                                 \
    {                                                                                              \
        return NO_DEVICE;                                                                          \
    }
REFUSED(X)
#undef X

#define X(name, value)                                                                             \
    int name(int *out);                                                                            \
    int name(int *out)                                                                             \
    {                                                                                              \
        *out = value;                                                                              \
        return OK;                                                                                 \
    }
NUMBERS(X)
#undef X

static int attribute(int which)
{
    return which == MAX_THREADS ? 1024 : which == REGISTERS ? 128 : 0;
}

int cuFuncGetAttribute(int *out, int which, void *function);
int cuFuncGetAttribute(int *out, int which, void *function)
{
    (void)function;
    *out = attribute(which);
    return OK;
}

int cuKernelGetAttribute(int *out, int which, void *kernel, int device);
int cuKernelGetAttribute(int *out, int which, void *kernel, int device)
{
    (void)kernel;
    (void)device;
    *out = attribute(which);
    return OK;
}

int cuGetErrorName(int error, const char **out);
int cuGetErrorName(int error, const char **out)
{
    (void)error;
    *out = "CUDA_ERROR_NO_DEVICE";
    return OK;
}

int cuGetErrorString(int error, const char **out);
int cuGetErrorString(int error, const char **out)
{
    (void)error;
    *out = "no device: this is bstune's stand-in for a driver, which only plans";
    return OK;
}
