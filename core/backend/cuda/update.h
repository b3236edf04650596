/* The memory behind an update's end, which the optimizers and the commit share. Private to optim.c
 * and commit.c; the context's thread. */
#ifndef BST_BACKEND_CUDA_UPDATE_H
#define BST_BACKEND_CUDA_UPDATE_H

#include "core/backend/cuda/be.h"

/* What lies in memory in this order: rules and a decision, the parameters, the spans; all written
 * by the host, where there is one for each commit that may be on its way. Behind them, on the
 * device alone, partial sums; then what goes back: the decision, the parameters' sums, those of a
 * part of the update, the weights', and the commit's number once more. */
struct cuda_update {
    int most_params, most_spans; /* room for */
    char *host, *device;
    double *partial, *stats; /* stats: their squared norm, with its partial sums behind it */
    char *back, *back_host;
};

struct cuda_update_head {
    struct kern_rules rules;
    struct kern_decision given; /* of an optimizer that is called by itself */
};

static inline size_t cuda_params_at(void)
{
    return cuda_round_up(sizeof(struct cuda_update_head));
}

static inline size_t cuda_spans_at(const struct cuda_update *u)
{
    return cuda_params_at() + cuda_round_up((size_t)u->most_params * sizeof(struct kern_param));
}

static inline size_t cuda_update_bytes(const struct cuda_update *u)
{
    return cuda_round_up(cuda_spans_at(u) + (size_t)u->most_spans * sizeof(struct kern_span));
}

/* The parts of what goes back, on the device or in one of its places on the host. */
static inline struct kern_decision *cuda_decision_at(char *back)
{
    return (struct kern_decision *)(void *)back;
}

static inline double *cuda_sums_at(char *back)
{
    return (double *)(void *)(back + sizeof(struct kern_decision));
}

static inline double *cuda_parts_at(const struct cuda_update *u, char *back)
{
    return cuda_sums_at(back) + u->most_params;
}

static inline double *cuda_weights_at(const struct cuda_update *u, char *back)
{
    return cuda_parts_at(u, back) + u->most_spans;
}

static inline double *cuda_end_at(const struct cuda_update *u, char *back)
{
    return cuda_weights_at(u, back) + u->most_params;
}

static inline size_t cuda_back_bytes(const struct cuda_update *u)
{
    return sizeof(struct kern_decision) +
           (2 * (size_t)u->most_params + (size_t)u->most_spans + 1) * sizeof(double);
}

static inline char *cuda_update_host(const struct bst_be *be)
{
    return be->update->host + be->n_commits % BST_COMMITS * cuda_update_bytes(be->update);
}

static inline char *cuda_back_of(const struct bst_be *be, uint64_t commit)
{
    return be->update->back_host +
           commit % BST_COMMITS * cuda_round_up(cuda_back_bytes(be->update));
}

static inline int64_t cuda_floats(size_t bytes)
{
    return (int64_t)(bytes / sizeof(float));
}

void cuda_write_rules(const struct bst_optim *o, struct kern_rules *r);
/* Returns the largest one's count. */
int64_t cuda_write_spans(const struct bst_span *spans, int n, struct kern_span *out);
/* What the host has written goes over. */
enum bst_err cuda_update_send(struct bst_be *be);
/* Over the spans that were written, as `decision` says. */
enum bst_err cuda_update_optimizer(struct bst_be *be, enum bst_optimizer kind, int n_spans,
                                   int64_t most, const struct bst_optim_blocks *b,
                                   const struct kern_decision *decision);

#endif
