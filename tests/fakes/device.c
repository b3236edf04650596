/* Virtual devices: which one is current, what they say of themselves, how they die. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/fakes/runtime.h"

enum { XIDS_MAX = 256 };

struct device {
    bool used;
    cudaError_t sticky;
    bool lost;
    size_t taken_bytes; /* without a block: context, communicators */
    size_t peak_bytes;
};

struct fake_settings fake_set;

static struct device devices[FAKE_DEVICES_MAX];
/* Recursive by a count of each thread's own: a condition can then be waited for at any depth. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int lock_depth;
static pthread_cond_t xid_came = PTHREAD_COND_INITIALIZER;
static struct fake_xid xids[XIDS_MAX];
static uint64_t n_xids;
static long alive[FAKE_N_KINDS];
static char last_report[512];
static _Thread_local int current;
static _Thread_local cudaError_t last_error;
static _Thread_local bool in_host_function;

static void reset_locked(const struct fake_settings *s)
{
    struct fake_settings fresh;
    if (s)
        fresh = *s;
    else
        fake_settings_env(&fresh);
    fake_streams_reset(); /* queues go before the memory that they point to */
    fake_memory_reset();
    fake_kernels_reset();
    fake_set = fresh;
    memset(devices, 0, sizeof devices);
    memset(alive, 0, sizeof alive);
    last_report[0] = 0;
    n_xids = 0;
    current = 0;
    last_error = cudaSuccess;
    fake_seed(fresh.seed);
    fake_calls_reset();
    fake_fail_set(fresh.fail);
}

static void print_leaks(void)
{
    static const char *const names[] = {
#define X(name, text) text,
        FAKE_KINDS(X)
#undef X
    };
    if (!fake_set.leaks)
        return;
    for (int i = 0; i < FAKE_N_KINDS; i++) {
        if (alive[i])
            fprintf(stderr, "fake cuda: left at exit: %ld %s\n", alive[i], names[i]);
    }
}

/* With the lock held; fake_fail_set(), called inside, takes it again. */
static void first_use(void)
{
    static bool did;
    if (did)
        return;
    did = true;
    reset_locked(NULL);
    atexit(print_leaks);
}

void fake_lock(void)
{
    if (!lock_depth++)
        pthread_mutex_lock(&mutex);
    first_use();
}

void fake_unlock(void)
{
    if (!--lock_depth)
        pthread_mutex_unlock(&mutex);
}

void fake_lock_wait(pthread_cond_t *cond, const struct timespec *until)
{
    pthread_cond_timedwait(cond, &mutex, until);
}

void fake_reset(const struct fake_settings *s)
{
    fake_lock();
    reset_locked(s);
    fake_unlock();
}

void fake_count(enum fake_kind kind, int by)
{
    fake_lock();
    alive[kind] += by;
    fake_unlock();
}

void fake_counts_get(struct fake_counts *out)
{
    fake_lock();
    *out = (struct fake_counts){.ops = fake_ops_run()};
    memcpy(out->alive, alive, sizeof alive);
    for (int i = 0; i < FAKE_DEVICES_MAX; i++) {
        out->device_bytes[i] = fake_used_bytes(i);
        out->device_peak_bytes[i] = devices[i].peak_bytes;
    }
    fake_unlock();
}

long fake_leaks(void)
{
    struct fake_counts c;
    fake_counts_get(&c);
    long n = 0;
    for (int i = 0; i < FAKE_N_KINDS; i++)
        n += c.alive[i];
    return n;
}

/* --- faults --- */

static void report(const char *fmt, va_list ap)
{
    vsnprintf(last_report, sizeof last_report, fmt, ap);
    if (!fake_set.quiet)
        fprintf(stderr, "fake cuda: %s\n", last_report);
}

void fake_report(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fake_lock();
    report(fmt, ap);
    fake_unlock();
    va_end(ap);
}

const char *fake_last_report(void)
{
    return last_report;
}

static void post_xid(int device, unsigned code)
{
    xids[n_xids++ % XIDS_MAX] = (struct fake_xid){device, code};
    pthread_cond_broadcast(&xid_came);
}

/* The driver's Xid beside the runtime's error (NVIDIA's "GPU deployment and management: Xid
 * errors"): 13 graphics engine exception, 31 memory page fault, 48 double-bit ECC, 74 NVLink, 79
 * off the bus. */
static unsigned xid_of(cudaError_t code)
{
    switch (code) {
    case cudaErrorIllegalAddress:
        return 31;
    case cudaErrorECCUncorrectable:
        return 48;
    case cudaErrorNvlinkUncorrectable:
        return 74;
    case cudaErrorUnknown:
        return 79;
    default:
        return 13;
    }
}

static void fault(int device, cudaError_t code)
{
    struct device *d = &devices[device];
    if (d->sticky)
        return;
    d->sticky = code;
    post_xid(device, xid_of(code));
    fake_drop_queues(device);
}

void fake_fault(int device, cudaError_t code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fake_lock();
    report(fmt, ap);
    fault(device, code);
    fake_unlock();
    va_end(ap);
}

void fake_lose(int device)
{
    fake_report("device %d has fallen off the bus", device);
    devices[device].lost = true;
    fault(device, cudaErrorUnknown);
}

bool fake_is_lost(int device)
{
    return devices[device].lost;
}

cudaError_t fake_sticky(int device)
{
    return device >= 0 && device < FAKE_DEVICES_MAX ? devices[device].sticky : cudaSuccess;
}

void fake_xid(int device, unsigned code)
{
    fake_lock();
    post_xid(device, code);
    fake_unlock();
}

uint64_t fake_xid_count(void)
{
    fake_lock();
    uint64_t n = n_xids;
    fake_unlock();
    return n;
}

bool fake_xid_wait(uint64_t *seen, unsigned timeout_ms, struct fake_xid *out)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += timeout_ms % 1000 * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    fake_lock();
    int rc = 0;
    while (n_xids <= *seen && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&xid_came, &mutex, &until);
    bool came = n_xids > *seen;
    if (came)
        *out = xids[(*seen)++ % XIDS_MAX];
    fake_unlock();
    return came;
}

/* Header of cudaError: "the process must be terminated and relaunched"; memory and link errors too.
 */
static bool is_fatal(int code)
{
    static const int fatal[] = {214, 220, 226, 700, 702, 710, 714, 715,
                                716, 717, 718, 719, 721, 810, 911, 999};
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) {
        if (fatal[i] == code)
            return true;
    }
    return false;
}

cudaError_t fake_begin(const char *call, int device)
{
    if (in_host_function)
        return cudaErrorNotPermitted;
    int at = device < 0 ? current : device;
    if (!fake_set.devices)
        return cudaErrorNoDevice;
    if (devices[at].sticky)
        return devices[at].sticky;
    struct fake_verdict v = fake_judge(call, at);
    if (v.what == FAKE_LOST)
        fake_lose(at);
    if (v.what == FAKE_RETURN && is_fatal(v.code))
        fake_fault(at, (cudaError_t)v.code, "injected: %s returns %d", call, v.code);
    return v.what == FAKE_RETURN ? (cudaError_t)v.code : devices[at].sticky;
}

cudaError_t fake_return(cudaError_t e, int device)
{
    int at = device < 0 ? current : device;
    if (devices[at].sticky)
        e = devices[at].sticky;
    if (e)
        last_error = e;
    fake_unlock();
    return e;
}

bool fake_in_host_function(void)
{
    return in_host_function;
}

void fake_set_in_host_function(bool in)
{
    in_host_function = in;
}

/* --- current device, capacity --- */

int fake_current_device(void)
{
    return current;
}

static void note_peak(int device)
{
    size_t used = fake_used_bytes(device);
    if (used > devices[device].peak_bytes)
        devices[device].peak_bytes = used;
}

bool fake_take_bytes(int device, size_t bytes)
{
    if (bytes > fake_set.mem_bytes[device] - fake_used_bytes(device))
        return false;
    devices[device].taken_bytes += bytes;
    note_peak(device);
    return true;
}

void fake_give_bytes(int device, size_t bytes)
{
    devices[device].taken_bytes -= bytes;
}

size_t fake_taken_bytes(int device)
{
    return devices[device].taken_bytes;
}

void fake_note_peak(int device)
{
    note_peak(device);
}

void fake_use_device(int device)
{
    if (devices[device].used)
        return;
    devices[device].used = true;
    if (!fake_take_bytes(device, fake_set.context_bytes))
        fake_report("device %d has no room for its context", device);
}

cudaError_t cudaSetDevice(int device)
{
    fake_lock();
    cudaError_t e = fake_set.devices ? cudaSuccess : cudaErrorNoDevice;
    if (!e && (device < 0 || device >= fake_set.devices))
        e = cudaErrorInvalidDevice;
    if (!e) {
        current = device;
        e = fake_begin(__func__, device);
        fake_use_device(device);
    }
    return fake_return(e, current);
}

cudaError_t cudaInitDevice(int device, unsigned int device_flags, unsigned int flags)
{
    (void)device_flags;
    (void)flags;
    FAKE_API(-1);
    if (device < 0 || device >= fake_set.devices)
        return fake_return(cudaErrorInvalidDevice, -1);
    fake_use_device(device);
    return fake_return(cudaSuccess, -1);
}

cudaError_t cudaGetDevice(int *device)
{
    FAKE_API(-1);
    *device = current;
    return fake_return(cudaSuccess, -1);
}

cudaError_t cudaSetDeviceFlags(unsigned int flags)
{
    (void)flags;
    FAKE_API(-1);
    return fake_return(cudaSuccess, -1);
}

cudaError_t cudaGetDeviceCount(int *count)
{
    fake_lock();
    *count = fake_set.devices;
    struct fake_verdict v = fake_judge(__func__, 0);
    if (v.what == FAKE_RETURN)
        return fake_return((cudaError_t)v.code, -1);
    return fake_return(fake_set.devices ? cudaSuccess : cudaErrorNoDevice, -1);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    FAKE_API(-1);
    fake_use_device(current);
    *total_bytes = fake_set.mem_bytes[current];
    *free_bytes = *total_bytes - fake_used_bytes(current);
    return fake_return(cudaSuccess, -1);
}

/* Errors are given out once, except a device's own, which stay. */
cudaError_t cudaGetLastError(void)
{
    fake_lock();
    cudaError_t e = fake_sticky(current) ? fake_sticky(current) : last_error;
    last_error = cudaSuccess;
    fake_unlock();
    return e;
}

cudaError_t cudaPeekAtLastError(void)
{
    fake_lock();
    cudaError_t e = fake_sticky(current) ? fake_sticky(current) : last_error;
    fake_unlock();
    return e;
}

cudaError_t cudaDeviceReset(void)
{
    FAKE_API(-1);
    return fake_return(cudaSuccess, -1);
}
