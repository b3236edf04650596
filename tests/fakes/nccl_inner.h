/* Inside NCCL's fake: what its files know of one another. The lock is held throughout. */
#ifndef FAKE_NCCL_INNER_H
#define FAKE_NCCL_INNER_H

#include <pthread.h>

#include <nccl.h>

#include "tests/fakes/core.h"

enum { RANKS_MAX = FAKE_DEVICES_MAX };

enum coll_kind { ALL_REDUCE, REDUCE, BROADCAST, REDUCE_SCATTER, ALL_GATHER };

/* What all ranks have to say alike. */
struct coll_spec {
    enum coll_kind kind;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
    int root;
};

/* One collective under way. */
struct coll {
    struct coll *next;
    uint64_t seq;
    struct coll_spec spec; /* as the first rank gave it */
    int first_rank;
    uint32_t arrived, done; /* a bit a rank */
    bool has_run;
    const void *src[RANKS_MAX];
    void *dst[RANKS_MAX];
};

/* What the ranks of a communicator share. */
struct clique {
    struct clique *next;
    char id[NCCL_UNIQUE_ID_BYTES];
    int refs, n, joined;
    struct ncclComm *ranks[RANKS_MAX];
    struct coll *colls;
};

struct ncclComm {
    int refs; /* the user's, and one a captured or queued call */
    struct clique *clique;
    int rank, device;
    uint64_t seq;
    bool is_blocking, is_aborted;
    bool is_pending; /* not blocking: has to be polled before it is used again */
    bool was_used;
    ncclResult_t async;
    pthread_t issuer; /* who made its last call outside of a group */
    bool has_issuer;
    size_t taken_bytes;
};

/* nccl.h declares these two without a prototype. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

/* Keeps the text for ncclGetLastError(), reports it and returns the result. */
ncclResult_t nccl_fail(ncclResult_t r, const char *text);

/* nccl_math.c */
size_t nccl_type_bytes(ncclDataType_t t); /* 0: not faked */
/* Once every rank has come: src and dst of all of them are there. */
void nccl_run(const struct coll *c, int n);

/* nccl_comm.c */
void nccl_unref(struct ncclComm *c);
ncclResult_t nccl_wait_for_all(struct ncclComm *c); /* until every rank has joined */

/* nccl.c */
bool nccl_in_group(void);
void nccl_join_at_end(struct ncclComm *c); /* of this thread's group */

#endif
