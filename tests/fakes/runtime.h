/* Inside the runtime's fake: what its files know of one another. The lock is held throughout. */
#ifndef FAKE_RUNTIME_H
#define FAKE_RUNTIME_H

#include <pthread.h>
#include <time.h>

#include "tests/fakes/core.h"

/* A point in a stream's order. An event is the mark of its last record; a wait holds the mark that
 * the event had when the wait was made. Counted references. */
struct mark {
    int refs;
    bool done;
    uint64_t t_ns; /* the device's clock when it was passed */
};
struct mark *mark_new(void);
struct mark *mark_ref(struct mark *m);
void mark_unref(struct mark *m); /* NULL is fine */

struct CUgraph_st;
struct replay;

enum op_kind {
    OP_CALL,
    OP_RECORD,
    OP_WAIT,
    OP_REPLAY,
};

struct op {
    struct op *next;
    enum op_kind kind;
    struct fake_call call;
    void *args;
    struct mark *mark;
    struct replay *replay;
};

/* Nodes of a capture that the next node of a stream comes after. */
struct frontier {
    int n;
    int *nodes;
};

struct CUstream_st {
    struct CUstream_st *next;
    int device;
    int priority;
    unsigned flags;
    struct op *head, **tail;
    int n_queued;
    uint64_t t_ns;
    struct CUgraph_st *capture; /* being recorded into, or NULL */
    bool is_origin;
    bool is_default;
    bool is_destroyed; /* by the user; gone when its queue is empty */
    struct frontier frontier;
};

struct CUevent_st {
    struct CUevent_st *next;
    int device;
    unsigned flags;
    struct mark *mark;          /* NULL: never recorded */
    struct CUgraph_st *capture; /* recorded last inside this capture (referenced) */
    struct frontier frontier;
};

extern struct CUstream_st *fake_streams;
extern struct CUevent_st *fake_events;

/* sched.c */
struct CUstream_st *
stream_of(cudaStream_t s); /* NULL and the special handles are the default stream */
void stream_push(struct CUstream_st *s, struct op *op); /* takes op; runs it at once when eager */
void stream_record(struct CUstream_st *s, struct mark *m);
void stream_wait(struct CUstream_st *s, struct mark *m);
void op_free(struct op *op);
void fake_drop_queues(int device); /* marks are passed, nothing runs; -1: every device */
uint32_t fake_draw(uint32_t n);    /* 0 … n-1 from the seed */
void fake_seed(uint64_t seed);
void run_call(const struct fake_call *call, void *args, int device);
bool call_is_ready(const struct fake_call *call, void *args);
uint64_t call_cost(const struct fake_call *call);
void stream_sync_legacy(struct CUstream_st *s);
uint64_t fake_ops_run(void);
bool fake_is_idle(int device);

/* stream.c */
void fake_streams_reset(void);

/* capture.c */
void frontier_set(struct frontier *f, const int *nodes, int n);
void frontier_add(struct frontier *f, const struct frontier *more);
cudaError_t capture_call(struct CUstream_st *s, const struct fake_call *call, const void *args,
                         size_t bytes);
cudaError_t capture_record(struct CUstream_st *s, struct CUevent_st *e);
cudaError_t capture_wait(struct CUstream_st *s, struct CUevent_st *e);
/* A call that may synchronise is refused where a capture is going on, and breaks that capture. */
cudaError_t capture_forbids(struct CUstream_st *s);
cudaError_t capture_forbids_thread(void);
cudaError_t capture_forbids_legacy(struct CUstream_st *s);
bool capture_is_open_here(void); /* one that this thread began */
void capture_leave(struct CUevent_st *e);
void fake_captures_reset(void);
void graph_unref(struct CUgraph_st *g);
bool replay_can_step(struct replay *r);
void replay_step(struct replay *r);           /* runs one node */
uint64_t replay_cost(const struct replay *r); /* of the longest path */
bool replay_done(const struct replay *r);
void replay_free(struct replay *r);

/* device.c */
size_t fake_taken_bytes(int device);
void fake_note_peak(int device);
/* Lets the lock go until the condition is signalled or the time has come. */
void fake_lock_wait(pthread_cond_t *cond, const struct timespec *until);
/* Stores `e`, or the device's sticky error in its place, as the thread's last error, lets the lock
 * go and returns it. */
cudaError_t fake_return(cudaError_t e, int device);
bool fake_in_host_function(void);
void fake_set_in_host_function(bool in);

/* memory.c */
void fake_memory_reset(void);

/* launch.c */
void fake_kernels_reset(void);

/* Begins an API function: takes the lock, counts the call, carries out what is injected. */
#define FAKE_API(device)                                                                           \
    do {                                                                                           \
        fake_lock();                                                                               \
        cudaError_t fake_api_err_ = fake_begin(__func__, (device));                                \
        if (fake_api_err_)                                                                         \
            return fake_return(fake_api_err_, (device));                                           \
    } while (0)
cudaError_t fake_begin(const char *call, int device);

#endif
