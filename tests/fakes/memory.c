/* Device memory: one mapping a block, closed to the host, between two pages that nobody may touch.
 * The block ends at the upper one, so that an overrun by 512 bytes or more is caught whoever makes
 * it. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fakes/runtime.h"

enum {
    GRAIN_BYTES = 512,
    POISON = 0xcb, /* as a half -15.6, as a float -2.7e7: never read unwritten without notice */
};
/* Larger blocks are poisoned at their beginning only, for the machine's own memory's sake. */
#define POISON_MOST ((size_t)256 << 20)

struct block {
    char *p;
    size_t bytes;
    char *map;
    size_t map_bytes;
    int device; /* -1: pinned host memory */
    bool registered;
};

struct blocks {
    struct block *a;
    int n, room;
};

static struct blocks blocks, pinned;
static size_t block_bytes[FAKE_DEVICES_MAX];
static enum fake_guard guard;
static int keys[FAKE_DEVICES_MAX];
static bool have_keys;
static _Thread_local int depth[FAKE_DEVICES_MAX]; /* KEYS: rights are a thread's own */
static int page_depth[FAKE_DEVICES_MAX];

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static void add(struct blocks *list, const struct block *b)
{
    if (list->n == list->room) {
        list->room = list->room ? 2 * list->room : 64;
        list->a = realloc(list->a, (size_t)list->room * sizeof *list->a);
    }
    list->a[list->n++] = *b;
}

static struct block *find(const struct blocks *list, const void *p)
{
    for (int i = 0; i < list->n; i++) {
        struct block *b = &list->a[i];
        if ((const char *)p >= b->p && (const char *)p < b->p + (b->bytes ? b->bytes : 1))
            return b;
    }
    return NULL;
}

static void remove_block(struct blocks *list, struct block *b)
{
    if (!b->registered)
        munmap(b->map, b->map_bytes);
    *b = list->a[--list->n];
}

int fake_device_of(const void *p)
{
    struct block *b = find(&blocks, p);
    return b ? b->device : -1;
}

static bool covers(const struct blocks *list, const void *p, size_t bytes)
{
    struct block *b = find(list, p);
    return b && bytes <= b->bytes - (size_t)((const char *)p - b->p);
}

bool fake_inside(const void *p, size_t bytes)
{
    return covers(&blocks, p, bytes);
}

bool fake_is_pinned(const void *p, size_t bytes)
{
    return covers(&pinned, p, bytes);
}

/* --- keeping the host out --- */

static void protect_pages(int device, int rights)
{
    for (int i = 0; i < blocks.n; i++) {
        struct block *b = &blocks.a[i];
        size_t page = page_bytes();
        if (b->device == device)
            mprotect(b->map + page, b->map_bytes - 2 * page, rights);
    }
}

static void open_one(int device)
{
    if (guard == FAKE_GUARD_KEYS && !depth[device]++)
        pkey_set(keys[device], 0);
    else if (guard == FAKE_GUARD_PAGES && !page_depth[device]++)
        protect_pages(device, PROT_READ | PROT_WRITE);
}

static void close_one(int device)
{
    if (guard == FAKE_GUARD_KEYS && !--depth[device])
        pkey_set(keys[device], PKEY_DISABLE_ACCESS);
    else if (guard == FAKE_GUARD_PAGES && !--page_depth[device])
        protect_pages(device, PROT_NONE);
}

void fake_open(int device)
{
    for (int i = 0; i < fake_set.devices; i++) {
        if (device < 0 || device == i)
            open_one(i);
    }
}

void fake_close(int device)
{
    for (int i = 0; i < fake_set.devices; i++) {
        if (device < 0 || device == i)
            close_one(i);
    }
}

/* A thread that never opened a device has the kernel's default for every key but 0: no access. */
static enum fake_guard choose_guard(void)
{
    if (fake_set.guard != FAKE_GUARD_AUTO && fake_set.guard != FAKE_GUARD_KEYS)
        return fake_set.guard;
    for (int i = 0; i < FAKE_DEVICES_MAX && !have_keys; i++) {
        keys[i] = pkey_alloc(0, PKEY_DISABLE_ACCESS);
        if (keys[i] < 0) {
            while (i > 0)
                pkey_free(keys[--i]);
            return FAKE_GUARD_PAGES;
        }
    }
    have_keys = true;
    return FAKE_GUARD_KEYS;
}

/* --- blocks --- */

size_t fake_used_bytes(int device)
{
    return block_bytes[device] + fake_taken_bytes(device);
}

static bool map_block(struct block *b)
{
    size_t page = page_bytes();
    size_t inner = round_up(b->bytes, page);
    b->map_bytes = inner + 2 * page;
    b->map =
        mmap(NULL, b->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (b->map == MAP_FAILED)
        return false;
    b->p = b->map + page + inner - round_up(b->bytes, GRAIN_BYTES);
    int rights = PROT_READ | PROT_WRITE;
    if (guard == FAKE_GUARD_KEYS)
        pkey_mprotect(b->map + page, inner, rights, keys[b->device]);
    else
        mprotect(b->map + page, inner,
                 guard == FAKE_GUARD_PAGES && b->device >= 0 ? PROT_NONE : rights);
    return true;
}

void *fake_block_new(int device, size_t bytes)
{
    if (!guard)
        guard = choose_guard();
    fake_use_device(device);
    size_t counted = round_up(bytes, GRAIN_BYTES);
    if (counted < bytes || counted > fake_set.mem_bytes[device] - fake_used_bytes(device))
        return NULL;
    struct block b = {.bytes = bytes, .device = device};
    if (!map_block(&b))
        return NULL;
    add(&blocks, &b);
    block_bytes[device] += counted;
    fake_note_peak(device);
    fake_count(FAKE_DEVICE_BLOCK, 1);
    fake_open(device);
    memset(b.p, POISON, bytes < POISON_MOST ? bytes : POISON_MOST);
    fake_close(device);
    return b.p;
}

bool fake_block_free(void *p)
{
    struct block *b = find(&blocks, p);
    if (!b || b->p != p)
        return false;
    block_bytes[b->device] -= round_up(b->bytes, GRAIN_BYTES);
    remove_block(&blocks, b);
    fake_count(FAKE_DEVICE_BLOCK, -1);
    return true;
}

void fake_memory_reset(void)
{
    while (blocks.n)
        remove_block(&blocks, &blocks.a[0]);
    while (pinned.n)
        remove_block(&pinned, &pinned.a[0]);
    memset(block_bytes, 0, sizeof block_bytes);
    guard = FAKE_GUARD_AUTO;
}

static bool nothing_queued(void *device)
{
    return fake_is_idle(*(int *)device);
}

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    FAKE_API(-1);
    *p = NULL;
    int device = fake_current_device();
    cudaError_t e = capture_forbids_thread();
    if (!e && bytes) {
        *p = fake_block_new(device, bytes);
        e = *p ? cudaSuccess : cudaErrorMemoryAllocation;
    }
    return fake_return(e, -1);
}

/* As the real one it waits for the device. A dead device's blocks can be given back, too. */
cudaError_t cudaFree(void *p)
{
    fake_lock();
    int device = p ? fake_device_of(p) : fake_current_device();
    if (device < 0) {
        fake_report("cudaFree(%p): not device memory", p);
        return fake_return(cudaErrorInvalidValue, -1);
    }
    cudaError_t e = fake_begin(__func__, device);
    if (e && !fake_sticky(device))
        return fake_return(e, device);
    e = capture_forbids_thread();
    if (e || !p)
        return fake_return(e, device);
    fake_drain(nothing_queued, &device, device);
    if (!fake_block_free(p)) {
        fake_report("cudaFree(%p): not the beginning of a block", p);
        e = cudaErrorInvalidValue;
    }
    return fake_return(e, device);
}

cudaError_t cudaMallocAsync(void **p, size_t bytes, cudaStream_t stream)
{
    FAKE_API(fake_stream_device(stream));
    int device = fake_stream_device(stream);
    *p = NULL;
    if (device < 0)
        return fake_return(cudaErrorInvalidResourceHandle, -1);
    if (fake_stream_captures(stream)) {
        fake_report("allocation nodes in graphs are not faked");
        return fake_return(cudaErrorNotSupported, device);
    }
    *p = bytes ? fake_block_new(device, bytes) : NULL;
    return fake_return(*p || !bytes ? cudaSuccess : cudaErrorMemoryAllocation, device);
}

static void free_later(void *args)
{
    fake_block_free(*(void **)args);
}

cudaError_t cudaFreeAsync(void *p, cudaStream_t stream)
{
    FAKE_API(fake_stream_device(stream));
    if (!fake_inside(p, 1))
        return fake_return(cudaErrorInvalidValue, -1);
    struct fake_call call = {.name = "cudaFreeAsync", .run = free_later};
    return fake_return(fake_enqueue(stream, &call, &p, sizeof p), fake_stream_device(stream));
}

/* --- pinned host memory --- */

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned int flags)
{
    (void)flags;
    FAKE_API(-1);
    *p = NULL;
    cudaError_t e = capture_forbids_thread();
    if (e || !bytes)
        return fake_return(e, -1);
    fake_use_device(fake_current_device());
    size_t map_bytes = round_up(bytes, page_bytes());
    void *map = mmap(NULL, map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return fake_return(cudaErrorMemoryAllocation, -1);
    struct block b = {.p = map, .bytes = bytes, .map = map, .map_bytes = map_bytes, .device = -1};
    add(&pinned, &b);
    fake_count(FAKE_HOST_BLOCK, 1);
    *p = map;
    return fake_return(cudaSuccess, -1);
}

cudaError_t cudaMallocHost(void **p, size_t bytes)
{
    return cudaHostAlloc(p, bytes, cudaHostAllocDefault);
}

static cudaError_t release_pinned(const char *call, void *p, bool registered)
{
    fake_lock();
    cudaError_t e = fake_begin(call, -1);
    if ((e && !fake_sticky(fake_current_device())) || !p)
        return fake_return(e, -1);
    struct block *b = find(&pinned, p);
    if (!b || b->p != p || b->registered != registered) {
        fake_report("%s(%p): no such block", call, p);
        return fake_return(cudaErrorInvalidValue, -1);
    }
    remove_block(&pinned, b);
    fake_count(FAKE_HOST_BLOCK, -1);
    return fake_return(e, -1);
}

cudaError_t cudaFreeHost(void *p)
{
    return release_pinned(__func__, p, false);
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned int flags)
{
    (void)flags;
    FAKE_API(-1);
    if (!p || !bytes)
        return fake_return(cudaErrorInvalidValue, -1);
    if (find(&pinned, p))
        return fake_return(cudaErrorHostMemoryAlreadyRegistered, -1);
    struct block b = {.p = p, .bytes = bytes, .device = -1, .registered = true};
    add(&pinned, &b);
    fake_count(FAKE_HOST_BLOCK, 1);
    return fake_return(cudaSuccess, -1);
}

cudaError_t cudaHostUnregister(void *p)
{
    return release_pinned(__func__, p, true);
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned int flags)
{
    (void)flags;
    FAKE_API(-1);
    *device = host;
    return fake_return(find(&pinned, host) ? cudaSuccess : cudaErrorInvalidValue, -1);
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *a, const void *p)
{
    FAKE_API(-1);
    int device = fake_device_of(p);
    bool host = device < 0 && find(&pinned, p);
    memset(a, 0, sizeof *a);
    a->type = device >= 0 ? cudaMemoryTypeDevice
              : host      ? cudaMemoryTypeHost
                          : cudaMemoryTypeUnregistered;
    a->device = device >= 0 ? device : host ? fake_current_device() : cudaInvalidDeviceId;
    a->devicePointer = device >= 0 || host ? (void *)p : NULL;
    a->hostPointer = device >= 0 ? NULL : (void *)p;
    return fake_return(cudaSuccess, -1);
}

/* --- pools: a block is free at once, so there is nothing to hold --- */

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
    FAKE_API(-1);
    static char handles[FAKE_DEVICES_MAX];
    if (device < 0 || device >= fake_set.devices)
        return fake_return(cudaErrorInvalidDevice, -1);
    *pool = (cudaMemPool_t)(void *)&handles[device];
    return fake_return(cudaSuccess, -1);
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attr, void *value)
{
    (void)attr;
    FAKE_API(-1);
    return fake_return(pool && value ? cudaSuccess : cudaErrorInvalidValue, -1);
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep)
{
    (void)keep;
    FAKE_API(-1);
    return fake_return(pool ? cudaSuccess : cudaErrorInvalidValue, -1);
}
