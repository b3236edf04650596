/* Kernels by name: what nvcc's launch stubs call, and the host versions behind it. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fakes/runtime.h"

enum {
    KERNELS_MAX = 512,
    MODULE_KERNELS_MAX = 1024,
    PARAMETERS_MOST_BYTES = 32764, /* of one launch, from compute capability 7 on */
};

/* A kernel that an nvcc-built object announces: its stub's address and its name. */
struct announced {
    const void *stub;
    const char *name;
};

static const struct fake_kernel *kernels[KERNELS_MAX];
static int n_kernels;
static bool have_lists;
static struct announced announced[MODULE_KERNELS_MAX];
static int n_announced;

static _Thread_local struct {
    dim3 grid, block;
    size_t shared_bytes;
    void *stream;
} pushed[8];
static _Thread_local int n_pushed;

void fake_kernels_reset(void)
{
    n_kernels = 0;
    have_lists = false;
}

static void load_lists(void);

void fake_kernel_add(const struct fake_kernel *k)
{
    fake_lock();
    load_lists(); /* so that this one comes behind them, and replaces theirs */
    int at = 0;
    while (at < n_kernels && strcmp(kernels[at]->name, k->name))
        at++;
    if (at < KERNELS_MAX) {
        kernels[at] = k;
        n_kernels = at == n_kernels ? n_kernels + 1 : n_kernels;
    }
    fake_unlock();
}

static void add_list(const struct fake_kernel *list)
{
    for (; list && list->name; list++)
        fake_kernel_add(list);
}

static void load_lists(void)
{
    if (have_lists)
        return;
    have_lists = true;
    add_list(fake_kernels);
    if (!fake_set.kernels[0])
        return;
    void *lib = dlopen(fake_set.kernels, RTLD_NOW | RTLD_LOCAL);
    void *list = lib ? dlsym(lib, "fake_kernels") : NULL;
    if (list)
        add_list(list);
    else
        fake_report("no kernels: %s", dlerror());
}

static const struct fake_kernel *find(const char *name)
{
    load_lists();
    for (int i = 0; i < n_kernels; i++) {
        if (!strcmp(kernels[i]->name, name))
            return kernels[i];
    }
    return NULL;
}

/* A launch under way: this, then the arguments' bytes one after another, each aligned to 16. */
struct launch {
    const struct fake_kernel *kernel;
    dim3 grid, block;
    size_t at[FAKE_KERNEL_ARGS]; /* from the beginning of this struct */
};

static void run_launch(void *args)
{
    struct launch *l = args;
    void *pointers[FAKE_KERNEL_ARGS];
    for (int i = 0; i < l->kernel->n_args; i++)
        pointers[i] = (char *)l + l->at[i];
    l->kernel->run(l->grid, l->block, pointers);
}

static cudaError_t check_limits(const struct fake_kernel *k, dim3 g, dim3 b, size_t shared_bytes)
{
    size_t bytes = 0;
    for (int i = 0; i < k->n_args; i++)
        bytes += k->arg_bytes[i];
    if (bytes > PARAMETERS_MOST_BYTES)
        return cudaErrorInvalidValue;
    bool grid = g.x && g.y && g.z && g.x <= 2147483647u && g.y <= 65535 && g.z <= 65535;
    bool block = b.x && b.y && b.z && b.z <= 64 && (size_t)b.x * b.y * b.z <= 1024;
    return grid && block && shared_bytes <= 227u << 10 ? cudaSuccess
                                                       : cudaErrorInvalidConfiguration;
}

static cudaError_t launch(const struct fake_kernel *k, dim3 grid, dim3 block, void **args,
                          cudaStream_t stream)
{
    size_t bytes = sizeof(struct launch);
    size_t at[FAKE_KERNEL_ARGS] = {0};
    for (int i = 0; i < k->n_args; i++) {
        at[i] = (bytes + 15) / 16 * 16;
        bytes = at[i] + k->arg_bytes[i];
    }
    struct launch *l = calloc(1, bytes);
    *l = (struct launch){.kernel = k, .grid = grid, .block = block};
    memcpy(l->at, at, sizeof at);
    for (int i = 0; i < k->n_args; i++)
        memcpy((char *)l + at[i], args[i], k->arg_bytes[i]);
    struct fake_call call = {.name = k->name, .run = run_launch, .verdict = fake_verdict_now()};
    cudaError_t e = fake_enqueue(stream, &call, l, bytes);
    free(l);
    return e;
}

cudaError_t fake_kernel_launch(const char *name, dim3 grid, dim3 block, void **args,
                               size_t shared_bytes, cudaStream_t stream)
{
    fake_lock();
    int device = fake_stream_device(stream);
    const struct fake_kernel *k = find(name);
    if (!k)
        fake_report("kernel %s has no host version", name);
    cudaError_t e = !k           ? cudaErrorInvalidDeviceFunction
                    : device < 0 ? cudaErrorInvalidResourceHandle
                                 : fake_begin(k->name, device);
    if (!e)
        e = check_limits(k, grid, block, shared_bytes);
    if (!e)
        e = launch(k, grid, block, args, stream);
    return fake_return(e, device);
}

/* --- what objects compiled by nvcc call; crt/ of the toolkit has the prototypes, for C++ only ---
 */

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

void **__cudaRegisterFatBinary(void *fat)
{
    void **handle = malloc(sizeof *handle);
    *handle = fat;
    return handle;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

void __cudaUnregisterFatBinary(void **handle)
{
    free(handle);
}

char __cudaInitModule(void **handle)
{
    (void)handle;
    return 1;
}

void __cudaRegisterFunction(void **handle, const char *stub, char *device_stub, const char *name,
                            int thread_limit, uint3 *tid, uint3 *bid, dim3 *block, dim3 *grid,
                            int *warp)
{
    (void)handle, (void)device_stub, (void)thread_limit, (void)tid, (void)bid;
    (void)block, (void)grid, (void)warp;
    fake_lock();
    if (n_announced < MODULE_KERNELS_MAX)
        announced[n_announced++] = (struct announced){stub, name};
    fake_unlock();
}

void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext,
                       size_t bytes, int constant, int global)
{
    (void)handle, (void)host, (void)device, (void)ext, (void)bytes, (void)constant, (void)global;
    fake_report("device variable %s is not faked", name);
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, void *stream)
{
    if (n_pushed == (int)(sizeof pushed / sizeof *pushed))
        return 1;
    pushed[n_pushed].grid = grid;
    pushed[n_pushed].block = block;
    pushed[n_pushed].shared_bytes = shared_bytes;
    pushed[n_pushed++].stream = stream;
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream)
{
    if (!n_pushed)
        return cudaErrorMissingConfiguration;
    n_pushed--;
    *grid = pushed[n_pushed].grid;
    *block = pushed[n_pushed].block;
    *shared_bytes = pushed[n_pushed].shared_bytes;
    *(void **)stream = pushed[n_pushed].stream;
    return cudaSuccess;
}

static const char *name_of(const void *stub)
{
    for (int i = n_announced - 1; i >= 0; i--) {
        if (announced[i].stub == stub)
            return announced[i].name;
    }
    return NULL;
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *stub)
{
    fake_lock();
    const char *name = name_of(stub);
    fake_unlock();
    *kernel = (cudaKernel_t)(uintptr_t)name;
    return name ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
                               size_t shared_bytes, cudaStream_t stream)
{
    return fake_kernel_launch((const char *)(uintptr_t)kernel, grid, block, args, shared_bytes,
                              stream);
}

#pragma GCC diagnostic pop

cudaError_t cudaLaunchKernel(const void *stub, dim3 grid, dim3 block, void **args,
                             size_t shared_bytes, cudaStream_t stream)
{
    fake_lock();
    const char *name = name_of(stub);
    cudaError_t e = name ? fake_kernel_launch(name, grid, block, args, shared_bytes, stream)
                         : cudaErrorInvalidDeviceFunction;
    return fake_return(e, fake_stream_device(stream));
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *c, const void *stub, void **args)
{
    return cudaLaunchKernel(stub, c->gridDim, c->blockDim, args, c->dynamicSmemBytes, c->stream);
}

cudaError_t cudaFuncSetAttribute(const void *stub, enum cudaFuncAttribute attr, int value)
{
    (void)attr;
    (void)value;
    FAKE_API(-1);
    return fake_return(name_of(stub) ? cudaSuccess : cudaErrorInvalidDeviceFunction, -1);
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *a, const void *stub)
{
    FAKE_API(-1);
    memset(a, 0, sizeof *a);
    a->maxThreadsPerBlock = 1024;
    a->numRegs = 32;
    a->binaryVersion = a->ptxVersion = 10 * fake_set.sm_major + fake_set.sm_minor;
    return fake_return(name_of(stub) ? cudaSuccess : cudaErrorInvalidDeviceFunction, -1);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, const void *stub, int block,
                                                          size_t shared_bytes)
{
    (void)shared_bytes;
    FAKE_API(-1);
    *n = block > 0 ? 2048 / block : 0;
    return fake_return(name_of(stub) && block > 0 ? cudaSuccess : cudaErrorInvalidValue, -1);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, const void *stub,
                                                                   int block, size_t shared_bytes,
                                                                   unsigned int flags)
{
    (void)flags;
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(n, stub, block, shared_bytes);
}
