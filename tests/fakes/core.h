/* Shared among the fakes: the lock, device memory, injected errors, faults and the queue.
 * Everything here wants the lock held, except where it says otherwise. Only the runtime's fake
 * implements it; the other libraries' fakes link to that one, so that there is one world a process.
 */
#ifndef FAKE_CORE_H
#define FAKE_CORE_H

#include "tests/fakes/fake.h"

/* One lock for all, recursive. The first use reads the environment. */
void fake_lock(void);
void fake_unlock(void);

extern struct fake_settings fake_set;

/* Alive counts. `by` is +1 or -1. Takes the lock itself. */
void fake_count(enum fake_kind kind, int by);

/* --- injected errors (inject.c) --- */
enum fake_what {
    FAKE_PASS,
    FAKE_RETURN, /* the call returns `code` and does nothing */
    FAKE_LATE,   /* the operation fails with `code` when it runs */
    FAKE_HANG,
    FAKE_LOST,
    FAKE_XID, /* the driver reports `code`; the call goes on */
};
struct fake_verdict {
    enum fake_what what;
    int code;
};
/* Counts a call and says what is to become of it. device -1: the current one. */
struct fake_verdict fake_judge(const char *call, int device);
void fake_count_call(const char *call, int device); /* and nothing else becomes of it */
/* What fake_begin() or fake_refuse() found for the call that is being made by this thread. */
struct fake_verdict fake_verdict_now(void);
void fake_calls_reset(void);
/* For calls that enqueue nothing: the code to return, or 0. `lost` is carried out. */
int fake_refuse(const char *call, int device);

/* --- faults (device.c) --- */
/* Misuse or a device error, in words: printed and kept for fake_last_report(). */
void fake_report(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* A device error that no later call recovers from: every later call on the device returns `code`,
 * what is queued there is dropped, and the Xid that belongs to it is posted. */
void fake_fault(int device, cudaError_t code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
cudaError_t fake_sticky(int device);
bool fake_is_lost(int device);
void fake_lose(int device); /* falls off the bus */
int fake_current_device(void);
void fake_use_device(int device); /* its context exists from now on, and takes its memory */
/* Takes or gives back capacity that no block stands for (context, communicators). */
bool fake_take_bytes(int device, size_t bytes);
void fake_give_bytes(int device, size_t bytes);
void fake_uuid(int device, unsigned char out[16]);
/* Waits for the next Xid after *seen; false on a timeout. Called without the lock. */
struct fake_xid {
    int device;
    unsigned code;
};
bool fake_xid_wait(uint64_t *seen, unsigned timeout_ms, struct fake_xid *out);
uint64_t fake_xid_count(void);

/* --- device memory (memory.c) --- */
int fake_device_of(const void *p); /* -1: not device memory */
/* The whole range lies in one live block. */
bool fake_inside(const void *p, size_t bytes);
bool fake_is_pinned(const void *p, size_t bytes);
/* Opens a device's memory to this thread (-1: every device's) and closes it again; nests. */
void fake_open(int device);
void fake_close(int device);
void *fake_block_new(int device, size_t bytes); /* NULL: no capacity left */
bool fake_block_free(void *p);
size_t fake_used_bytes(int device);

/* --- the queue (sched.c) --- */
struct fake_call {
    const char *name; /* outlives the call */
    fake_fn *run;
    bool (*ready)(void *args);   /* NULL: always */
    void (*start)(void *args);   /* each time it is enqueued to run, also by a graph */
    void (*fini)(void *args);    /* once, when the arguments that were handed in are let go */
    uint64_t cost_ns;            /* of the device's own time; 0 stands for 1 µs */
    struct fake_verdict verdict; /* FAKE_LATE and FAKE_HANG are carried out when it runs */
    bool host;                   /* runs as host code: device memory stays closed */
    bool all_devices;            /* opens every device's memory */
};
/* Copies args. On an error fini() has been called. Takes the lock itself. */
cudaError_t fake_enqueue(cudaStream_t stream, const struct fake_call *call, const void *args,
                         size_t bytes);
/* Device of a stream, -1 when it is none (destroyed, garbage). */
int fake_stream_device(cudaStream_t stream);
bool fake_stream_captures(cudaStream_t stream);
/* Runs what can run until done(x), as a synchronising call does. cudaErrorLaunchTimeout: nothing
 * can run any more and hang_ms went by. `device`'s own error ends it too (-1: no device's). */
cudaError_t fake_drain(bool (*done)(void *x), void *x, int device);
/* Lets the device get on, as time passing would. */
void fake_progress(void);

#endif
