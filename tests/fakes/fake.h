/* Fakes of the CUDA runtime, cuDNN, cuBLASLt, NCCL and NVML over CPU memory: what a test, or the
 * host version of a kernel, may call besides CUDA's own API. README.md says what is faked and how
 * it is set (BST_FAKE_*). Any thread may call anything here; one lock is held while an operation
 * runs. */
#ifndef FAKE_H
#define FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda_runtime_api.h>

enum {
    FAKE_DEVICES_MAX = 8,
    FAKE_KERNEL_ARGS = 12,
};

/* How device memory is kept from the host. KEYS (memory protection keys) tells threads apart and is
 * the default where the processor has them; else PAGES (mprotect around each operation). */
enum fake_guard {
    FAKE_GUARD_AUTO,
    FAKE_GUARD_KEYS,
    FAKE_GUARD_PAGES,
    FAKE_GUARD_OFF,
};

struct fake_settings {
    int devices;
    size_t mem_bytes[FAKE_DEVICES_MAX]; /* capacity of each device */
    size_t context_bytes;               /* taken on a device by the first use of it */
    size_t nccl_bytes;                  /* taken on its device by each communicator */
    uint64_t seed; /* 0: an operation runs as soon as it may; else order is drawn from it */
    enum fake_guard guard;
    int hang_ms;            /* a wait in which nothing at all can run for so long is a deadlock */
    bool quiet;             /* faults are not printed */
    bool leaks;             /* what is left at exit is printed */
    char name[64];          /* of every device */
    int sm_major, sm_minor; /* compute capability */
    char fail[1024];        /* errors to inject: see fake_fail_set() */
    char kernels[512];      /* a library with `fake_kernels`, or empty */
};

/* Reads BST_FAKE_* on top of the defaults. */
void fake_settings_env(struct fake_settings *s);

/* Back to a machine just switched on: devices, queues, counts, errors. NULL: the environment's
 * settings. No other thread may be inside the fakes; whatever they handed out is void. */
void fake_reset(const struct fake_settings *s);

/* Errors to inject, separated by commas: CALL[@DEVICE]:NTH[+]:WHAT. The NTH (from 1) call of CALL,
 * with
 * + every one from there on, fails. Without @DEVICE calls on all devices are counted together. CALL
 * is an API function's or a kernel's name; finalizing a cuDNN plan is cudnnBackendFinalize.plan,
 * and so on. WHAT is the library's own error number, returned by the call; `late=N`, the operation
 * fails with runtime error N when it runs (collectives: the communicator's asynchronous error);
 * `hang`, it never ends; `lost`, the device falls off the bus; `xid=N`, the driver reports N and
 * the call goes on. */
void fake_fail_set(const char *text);

/* Every function that errors can be injected into, and how often it was called since the reset, by
 * device; returns how many there are, at most `room`. */
struct fake_call_count {
    char name[64];
    unsigned long n[FAKE_DEVICES_MAX];
};
int fake_calls_get(struct fake_call_count *out, int room);
/* Among them, under this name, copies from or to host memory that is not page-locked, which the
 * caller waits for in one way or another. */
#define FAKE_PAGEABLE_COPY "a pageable copy"
unsigned long fake_hits(void);          /* calls since the reset that met a rule */
unsigned long fake_hits_captured(void); /* of them, by a thread in the middle of a capture */

/* What is alive, by kind. */
#define FAKE_KINDS(X)                                                                              \
    X(DEVICE_BLOCK, "device blocks")                                                               \
    X(HOST_BLOCK, "pinned host blocks")                                                            \
    X(STREAM, "streams")                                                                           \
    X(EVENT, "events")                                                                             \
    X(GRAPH, "graphs")                                                                             \
    X(GRAPH_EXEC, "executable graphs")                                                             \
    X(CUDNN_HANDLE, "cuDNN handles")                                                               \
    X(CUDNN_DESCRIPTOR, "cuDNN descriptors")                                                       \
    X(CUBLAS_HANDLE, "cuBLAS handles")                                                             \
    X(CUBLAS_DESCRIPTOR, "cuBLASLt descriptors")                                                   \
    X(NCCL_COMM, "NCCL communicators")                                                             \
    X(NVML_SET, "NVML event sets")

enum fake_kind {
#define X(name, text) FAKE_##name,
    FAKE_KINDS(X)
#undef X
        FAKE_N_KINDS
};

struct fake_counts {
    long alive[FAKE_N_KINDS];
    size_t device_bytes[FAKE_DEVICES_MAX];      /* held now, context and communicators included */
    size_t device_peak_bytes[FAKE_DEVICES_MAX]; /* most ever held since the reset */
    uint64_t ops;                               /* operations that ran */
};

void fake_counts_get(struct fake_counts *out);
/* Objects alive, all kinds together. */
long fake_leaks(void);

/* Every device stands still: calls take work, and nothing of it runs until it is let go again. */
void fake_hold(bool on);

/* The last fault or misuse that the fakes met, in words; "" when there was none. */
const char *fake_last_report(void);

/* A GPU error as the driver reports it to NVML (and nothing else happens). */
void fake_xid(int device, unsigned code);

typedef void fake_fn(void *args);

/* One operation in stream order. `args` is copied, `bytes` of it, and handed to `fn` when the
 * operation runs, with the stream's device memory open to it. In a capture it becomes a node. */
cudaError_t fake_launch(cudaStream_t stream, const char *name, fake_fn *fn, const void *args,
                        size_t bytes);

/* The host version of a kernel, found by the kernel's (extern "C") name. args[i] points to a copy
 * of argument i, arg_bytes[i] long. It does what the whole grid does. */
struct fake_kernel {
    const char *name;
    void (*run)(dim3 grid, dim3 block, void *const *args);
    int n_args;
    size_t arg_bytes[FAKE_KERNEL_ARGS];
};

/* Adds to the list; the kernel is borrowed for good. A name that is known already is replaced. */
void fake_kernel_add(const struct fake_kernel *k);

/* A list ended by a NULL name, met in the program itself or in the library BST_FAKE_KERNELS, is
 * added at the first launch. */
extern const struct fake_kernel fake_kernels[] __attribute__((weak));

/* As <<<grid, block, shared, stream>>> does: limits are checked, the arguments copied. */
cudaError_t fake_kernel_launch(const char *name, dim3 grid, dim3 block, void **args,
                               size_t shared_bytes, cudaStream_t stream);

#endif
