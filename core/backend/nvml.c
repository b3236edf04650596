#include "core/backend/nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "core/backend/nvml_calls.h"
#include "core/base/alloc.h"

enum { MUST_HAVE = 4 };

static enum bst_err take_symbols(struct bst_nvml *n)
{
    static const char *const names[] = {
#define X(name, args) "nvml" #name,
        NVML_CALLS(X)
#undef X
    };
    /* POSIX: a function's address fits a void *, and all pointers to functions are alike. */
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *at = dlsym(n->library, names[i]);
        if (!at && i < MUST_HAVE)
            return bst_fail(BST_E_LIBRARY, "NVML has no %s: a driver from before 2013?", names[i]);
        memcpy((char *)&n->call + i * sizeof at, &at, sizeof at);
    }
    return BST_OK;
}

static enum bst_err start_failed(int code)
{
    switch (code) {
    case NVML_DRIVER_NOT_LOADED:
        return bst_fail(BST_E_LIBRARY, "NVIDIA's kernel driver is not loaded (modprobe nvidia)");
    case NVML_NO_PERMISSION:
    case NVML_OPERATING_SYSTEM:
        return bst_fail(BST_E_LIBRARY, "this user or container may not open /dev/nvidia*");
    case NVML_VERSION_MISMATCH:
        return bst_fail(BST_E_LIBRARY, "NVIDIA's kernel driver and its libraries are of different "
                                       "versions, as after an upgrade: restart the machine");
    default:
        return bst_fail(BST_E_LIBRARY, "NVML does not start (its error %d)", code);
    }
}

static enum bst_nvml_mode mode_of(int failed, bool on)
{
    return failed ? BST_NVML_UNKNOWN : on ? BST_NVML_ON : BST_NVML_OFF;
}

static struct bst_nvml_value value_of(int failed, double value)
{
    return failed ? (struct bst_nvml_value){0} : (struct bst_nvml_value){value, true};
}

static void read_memory(struct bst_nvml *n, nvml_handle d, struct bst_nvml_value *used,
                        struct bst_nvml_value *total)
{
    struct nvml_memory2 two = {.version = NVML_MEMORY2_VERSION};
    struct nvml_memory one = {0};
    int failed = NVML_CALL(n, DeviceGetMemoryInfo_v2, d, &two);
    if (failed) {
        failed = NVML_CALL(n, DeviceGetMemoryInfo, d, &one);
        two.total = one.total;
        two.used = one.used;
    }
    *used = value_of(failed, (double)two.used);
    *total = value_of(failed, (double)two.total);
}

static void add_device(struct bst_nvml *n, nvml_handle d, bool instance)
{
    if (n->n_devices == BST_NVML_DEVICES)
        return;
    struct bst_nvml_identity *id = &n->devices[n->n_devices];
    struct bst_nvml_value used;
    unsigned mig = 0, mig_then = 0;
    int ecc = 0, ecc_then = 0;
    *id = (struct bst_nvml_identity){.instance = instance};
    if (NVML_CALL(n, DeviceGetUUID, d, id->uuid, sizeof id->uuid))
        return; /* nobody could name it */
    if (NVML_CALL(n, DeviceGetName, d, id->name, sizeof id->name))
        snprintf(id->name, sizeof id->name, "NVIDIA GPU");
    int failed = NVML_CALL(n, DeviceGetMigMode, d, &mig, &mig_then);
    id->mig = instance ? BST_NVML_ON : mode_of(failed, mig != 0);
    failed = NVML_CALL(n, DeviceGetEccMode, d, &ecc, &ecc_then);
    id->ecc = mode_of(failed, ecc != 0);
    read_memory(n, d, &used, &id->memory);
    n->handles[n->n_devices++] = d;
}

/* A device with MIG on is its instances: nothing can run on the whole. */
static bool add_instances(struct bst_nvml *n, nvml_handle d)
{
    unsigned now = 0, then = 0, most = 0;
    int before = n->n_devices;
    if (NVML_CALL(n, DeviceGetMigMode, d, &now, &then) || !now ||
        NVML_CALL(n, DeviceGetMaxMigDeviceCount, d, &most))
        return false;
    for (unsigned i = 0; i < most; i++) {
        nvml_handle instance = NULL;
        if (!NVML_CALL(n, DeviceGetMigDeviceHandleByIndex, d, i, &instance))
            add_device(n, instance, true);
    }
    return n->n_devices > before;
}

static void find_devices(struct bst_nvml *n)
{
    unsigned count = 0;
    if (n->call.DeviceGetCount_v2(&count))
        return;
    for (unsigned i = 0; i < count; i++) {
        nvml_handle d = NULL;
        if (n->call.DeviceGetHandleByIndex_v2(i, &d))
            continue; /* lost, or not this user's */
        if (!add_instances(n, d))
            add_device(n, d, false);
    }
}

enum bst_err bst_nvml_open(const char *path, struct bst_nvml **out)
{
    *out = NULL;
    void *library = dlopen(path ? path : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return bst_fail(BST_E_NOTFOUND, "NVIDIA's driver is not installed (no libnvidia-ml.so.1)");
    struct bst_nvml *n = bst_xalloc(sizeof *n);
    n->library = library;
    enum bst_err err = take_symbols(n);
    int code = err ? 0 : n->call.Init_v2();
    if (code)
        err = start_failed(code);
    if (err) {
        dlclose(library);
        bst_free(n);
        return err;
    }
    if (NVML_CALL(n, SystemGetDriverVersion, n->driver, sizeof n->driver))
        n->driver[0] = '\0';
    if (NVML_CALL(n, SystemGetCudaDriverVersion_v2, &n->cuda))
        n->cuda = 0;
    find_devices(n);
    *out = n;
    return BST_OK;
}

void bst_nvml_close(struct bst_nvml *n)
{
    if (!n)
        return;
    n->call.Shutdown();
    dlclose(n->library);
    bst_free(n);
}

const char *bst_nvml_driver(const struct bst_nvml *n)
{
    return n->driver;
}

int bst_nvml_cuda(const struct bst_nvml *n)
{
    return n->cuda;
}

int bst_nvml_count(const struct bst_nvml *n)
{
    return n->n_devices;
}

const struct bst_nvml_identity *bst_nvml_at(const struct bst_nvml *n, int device)
{
    BST_ASSERT(device >= 0 && device < n->n_devices);
    return &n->devices[device];
}

int bst_nvml_find(const struct bst_nvml *n, const char *uuid)
{
    for (int i = 0; i < n->n_devices; i++) {
        if (!strcmp(n->devices[i].uuid, uuid))
            return i;
    }
    return -1;
}

static struct bst_nvml_value read_clock(struct bst_nvml *n, nvml_handle d, int clock)
{
    unsigned mhz = 0;
    int failed = NVML_CALL(n, DeviceGetClockInfo, d, clock, &mhz);
    return value_of(failed, mhz);
}

static struct bst_nvml_value read_ecc(struct bst_nvml *n, nvml_handle d, int type)
{
    unsigned long long count = 0;
    int failed = NVML_CALL(n, DeviceGetTotalEccErrors, d, type, NVML_ECC_VOLATILE, &count);
    return value_of(failed, (double)count);
}

/* Until 12.2 the reasons had another name. */
static void read_throttle(struct bst_nvml *n, nvml_handle d, struct bst_nvml_reading *r)
{
    unsigned long long bits = 0;
    int failed = NVML_CALL(n, DeviceGetCurrentClocksEventReasons, d, &bits);
    if (failed)
        failed = NVML_CALL(n, DeviceGetCurrentClocksThrottleReasons, d, &bits);
    r->throttle_valid = !failed;
    r->throttle = failed ? 0 : bits;
}

void bst_nvml_read(struct bst_nvml *n, int device, struct bst_nvml_reading *out)
{
    BST_ASSERT(device >= 0 && device < n->n_devices);
    nvml_handle d = n->handles[device];
    struct nvml_utilisation u = {0};
    unsigned mw = 0, limit_mw = 0, celsius = 0;
    *out = (struct bst_nvml_reading){0};
    int failed = NVML_CALL(n, DeviceGetTemperature, d, NVML_TEMPERATURE_GPU, &celsius);
    if (failed == NVML_GPU_IS_LOST) {
        out->lost = true;
        return;
    }
    out->temperature = value_of(failed, celsius);
    read_memory(n, d, &out->memory_used, &out->memory_total);
    failed = NVML_CALL(n, DeviceGetUtilizationRates, d, &u);
    out->utilisation = value_of(failed, u.gpu / 100.0);
    out->memory_utilisation = value_of(failed, u.memory / 100.0);
    out->sm_clock = read_clock(n, d, NVML_CLOCK_SM);
    out->memory_clock = read_clock(n, d, NVML_CLOCK_MEM);
    failed = NVML_CALL(n, DeviceGetPowerUsage, d, &mw);
    out->power = value_of(failed, mw / 1000.0);
    failed = NVML_CALL(n, DeviceGetEnforcedPowerLimit, d, &limit_mw);
    out->power_limit = value_of(failed, limit_mw / 1000.0);
    out->ecc_corrected = read_ecc(n, d, NVML_ECC_CORRECTED);
    out->ecc_uncorrected = read_ecc(n, d, NVML_ECC_UNCORRECTED);
    read_throttle(n, d, out);
}

void bst_nvml_throttle_text(uint64_t bits, char out[96])
{
    static const struct {
        uint64_t bit;
        const char *word;
    } words[] = {
        {0x04, "power limit"}, {0x08, "hardware slowdown"}, {0x10, "sync boost"},
        {0x20, "temperature"}, {0x40, "overheated"},        {0x80, "power brake"},
    };
    size_t at = 0;
    out[0] = '\0';
    /* Bit 0x08 is the sum of 0x40 and 0x80 where the device tells them apart. */
    if (bits & 0xc0)
        bits &= ~(uint64_t)0x08;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (bits & words[i].bit)
            at += (size_t)snprintf(out + at, 96 - at, "%s%s", at ? ", " : "", words[i].word);
    }
}
