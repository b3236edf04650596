/* What a virtual device says of itself: an H100 in all that a trainer reads, but its memory. */
#include <stdio.h>
#include <string.h>

#include "tests/fakes/runtime.h"

enum { SM_COUNT = 132, SHARED_OPTIN_BYTES = 227 << 10 };

void fake_uuid(int device, unsigned char out[16])
{
    memset(out, 0, 16);
    memcpy(out, "bstune-fake-gpu", 15);
    out[15] = (unsigned char)device;
}

static bool known(int device)
{
    return device >= 0 && device < fake_set.devices;
}

static void fill(struct cudaDeviceProp *p, int device)
{
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "%s", fake_set.name);
    fake_uuid(device, (unsigned char *)p->uuid.bytes);
    p->totalGlobalMem = fake_set.mem_bytes[device];
    p->sharedMemPerBlock = 48 << 10;
    p->sharedMemPerBlockOptin = SHARED_OPTIN_BYTES;
    p->sharedMemPerMultiprocessor = 228 << 10;
    p->reservedSharedMemPerBlock = 1 << 10;
    p->regsPerBlock = p->regsPerMultiprocessor = 65536;
    p->warpSize = 32;
    p->maxThreadsPerBlock = 1024;
    p->maxThreadsPerMultiProcessor = 2048;
    p->maxBlocksPerMultiProcessor = 32;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 2147483647;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->totalConstMem = 64 << 10;
    p->memPitch = 2147483647;
    p->textureAlignment = 512;
    p->texturePitchAlignment = 32;
    p->major = fake_set.sm_major;
    p->minor = fake_set.sm_minor;
    p->multiProcessorCount = SM_COUNT;
    p->l2CacheSize = 50 << 20;
    p->memoryBusWidth = 5120;
    p->canMapHostMemory = p->concurrentKernels = p->unifiedAddressing = 1;
    p->managedMemory = p->ECCEnabled = p->streamPrioritiesSupported = 1;
    p->globalL1CacheSupported = p->localL1CacheSupported = 1;
    p->cooperativeLaunch = p->clusterLaunch = p->memoryPoolsSupported = 1;
    p->hostRegisterSupported = p->computePreemptionSupported = 1;
    p->asyncEngineCount = 3;
    p->pciBusID = device + 1;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    FAKE_API(-1);
    if (!known(device))
        return fake_return(cudaErrorInvalidDevice, -1);
    fill(prop, device);
    return fake_return(cudaSuccess, -1);
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
    FAKE_API(-1);
    if (!known(device))
        return fake_return(cudaErrorInvalidDevice, -1);
    struct cudaDeviceProp p;
    fill(&p, device);
    const struct {
        enum cudaDeviceAttr attr;
        int value;
    } table[] = {
        {cudaDevAttrMaxThreadsPerBlock, p.maxThreadsPerBlock},
        {cudaDevAttrMaxSharedMemoryPerBlock, (int)p.sharedMemPerBlock},
        {cudaDevAttrMaxSharedMemoryPerBlockOptin, (int)p.sharedMemPerBlockOptin},
        {cudaDevAttrMaxSharedMemoryPerMultiprocessor, (int)p.sharedMemPerMultiprocessor},
        {cudaDevAttrWarpSize, p.warpSize},
        {cudaDevAttrMultiProcessorCount, p.multiProcessorCount},
        {cudaDevAttrMaxThreadsPerMultiProcessor, p.maxThreadsPerMultiProcessor},
        {cudaDevAttrMaxBlocksPerMultiprocessor, p.maxBlocksPerMultiProcessor},
        {cudaDevAttrMaxRegistersPerMultiprocessor, p.regsPerMultiprocessor},
        {cudaDevAttrMaxGridDimX, p.maxGridSize[0]},
        {cudaDevAttrMaxGridDimY, p.maxGridSize[1]},
        {cudaDevAttrMaxGridDimZ, p.maxGridSize[2]},
        {cudaDevAttrComputeCapabilityMajor, p.major},
        {cudaDevAttrComputeCapabilityMinor, p.minor},
        {cudaDevAttrL2CacheSize, p.l2CacheSize},
        {cudaDevAttrGlobalMemoryBusWidth, p.memoryBusWidth},
        {cudaDevAttrClockRate, 1980000},
        {cudaDevAttrMemoryClockRate, 2619000},
        {cudaDevAttrEccEnabled, p.ECCEnabled},
        {cudaDevAttrPciBusId, p.pciBusID},
        {cudaDevAttrPciDeviceId, p.pciDeviceID},
        {cudaDevAttrPciDomainId, p.pciDomainID},
        {cudaDevAttrMemoryPoolsSupported, p.memoryPoolsSupported},
        {cudaDevAttrCooperativeLaunch, p.cooperativeLaunch},
        {cudaDevAttrUnifiedAddressing, p.unifiedAddressing},
        {cudaDevAttrCanMapHostMemory, p.canMapHostMemory},
        {cudaDevAttrHostRegisterSupported, p.hostRegisterSupported},
        {cudaDevAttrAsyncEngineCount, p.asyncEngineCount},
        {cudaDevAttrConcurrentKernels, p.concurrentKernels},
        {cudaDevAttrStreamPrioritiesSupported, p.streamPrioritiesSupported},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (table[i].attr == attr) {
            *value = table[i].value;
            return fake_return(cudaSuccess, -1);
        }
    }
    fake_report("device attribute %d is not faked", (int)attr);
    return fake_return(cudaErrorInvalidValue, -1);
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int len, int device)
{
    FAKE_API(-1);
    if (!known(device) || len < 13)
        return fake_return(cudaErrorInvalidValue, -1);
    snprintf(id, (size_t)len, "0000:%02X:00.0", device + 1);
    return fake_return(cudaSuccess, -1);
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *id)
{
    FAKE_API(-1);
    unsigned domain, bus;
    if (sscanf(id, "%x:%x", &domain, &bus) != 2 || !known((int)bus - 1))
        return fake_return(cudaErrorInvalidDevice, -1);
    *device = (int)bus - 1;
    return fake_return(cudaSuccess, -1);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    FAKE_API(-1);
    *least = 0;
    *greatest = -5;
    return fake_return(cudaSuccess, -1);
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    FAKE_API(-1);
    if (!known(device) || !known(peer))
        return fake_return(cudaErrorInvalidDevice, -1);
    *can = device != peer;
    return fake_return(cudaSuccess, -1);
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
{
    FAKE_API(-1);
    return fake_return(known(peer) && !flags ? cudaSuccess : cudaErrorInvalidValue, -1);
}

cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
    (void)limit;
    (void)value;
    FAKE_API(-1);
    return fake_return(cudaSuccess, -1);
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

static const struct {
    cudaError_t code;
    const char *name, *text;
} errors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorECCUncorrectable, "cudaErrorECCUncorrectable", "uncorrectable ECC error encountered"},
    {cudaErrorNvlinkUncorrectable, "cudaErrorNvlinkUncorrectable",
     "uncorrectable NVLink error detected during the execution"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalState, "cudaErrorIllegalState",
     "the operation cannot be performed in the present state"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorLaunchTimeout, "cudaErrorLaunchTimeout", "the launch timed out and was terminated"},
    {cudaErrorAssert, "cudaErrorAssert", "device-side assert triggered"},
    {cudaErrorHardwareStackError, "cudaErrorHardwareStackError", "hardware stack error"},
    {cudaErrorIllegalInstruction, "cudaErrorIllegalInstruction",
     "an illegal instruction was encountered"},
    {cudaErrorMisalignedAddress, "cudaErrorMisalignedAddress", "misaligned address"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNotPermitted, "cudaErrorNotPermitted", "operation not permitted"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined",
     "capture sequence contains a fork that was not joined to the primary stream"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

const char *cudaGetErrorName(cudaError_t error)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        if (errors[i].code == error)
            return errors[i].name;
    }
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        if (errors[i].code == error)
            return errors[i].text;
    }
    return "unrecognized error code";
}
