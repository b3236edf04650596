/* The kernels of an update's end, and of flat blocks of parameters, as kern.h has them; fp32 but
 * where they say so. What the host gives for a commit lies in device memory, so that one that was
 * captured takes what is there when it runs. */
#ifndef BST_BACKEND_CUDA_KERN_UPDATE_H
#define BST_BACKEND_CUDA_KERN_UPDATE_H

#include <stdbool.h>
#include <stdint.h>

#define KERN_LOSSES 2 /* of a net at most */
struct kern_loss {    /* of micro-batches, on the device until it is read */
    double sum;
    int64_t correct, targets;
    int64_t exact;   /* samples that have targets, and whose every one is right */
    int64_t bad_row; /* first row with a label that is no class, or -1 */
};

struct kern_sgd { /* backend.h's struct bst_sgd */
    float *w, *v;
    const float *g;
    int64_t count;
    float lr, momentum, weight_decay, grad_factor;
    float v_factor; /* v ·= this beforehand */
    bool nesterov, first;
};

/* An update's end (core/backend/commit.h). Offsets and counts are in floats. */
struct kern_param { /* that is trained */
    int64_t offset, count;
    int32_t frozen;
};
struct kern_span {
    int64_t offset, count;
    float lr, weight_decay;
    int32_t trusted;
};
struct kern_rules {
    int32_t kind; /* enum bst_optimizer */
    int32_t nesterov;
    float momentum, v_factor, epsilon, keep_m, keep_v; /* keep_m: 1 - β1 */
    double beta1, beta2, trust, max_norm;
    int32_t scales;
    double number; /* of the commit */
};
struct kern_scaler { /* from one update to the next */
    double scale;
    int64_t steps;
    int32_t good;
};
struct kern_decision {
    double number;        /* the rules'; again at the end of all that goes back */
    int32_t skip, closed; /* closed: by the gate, and nothing else is said */
    float grad_factor, unbias_m, unbias_root_v;
    double norm, scale; /* the scale that the gradients have */
    int32_t clipped, first_bad, last_bad, n_zero;
    struct kern_scaler after;
    struct kern_loss loss[KERN_LOSSES];
};

struct kern_grad_squares { /* partial[param][block] */
    const float *grad;
    const struct kern_param *param;
    double *partial;
    int n;
};
struct kern_decide {     /* and sum[param], unscaled */
    const int32_t *gate; /* the host's; NULL: open. Not 0: nothing moves */
    const double *stats; /* the statistics' squared norm; NULL: there are none */
    const struct kern_loss *loss;
    double *end; /* = number */
    const struct kern_rules *rules;
    const struct kern_param *param;
    const double *partial;
    double *sum;
    struct kern_scaler *scaler;
    struct kern_decision *out;
    int n;
};

/* The optimizer over all spans; nothing where the decision is to skip. Where rates depend on norms
 * there are two sweeps: moments and partial[span][block][2] = ‖w‖², of what moves it; then the
 * weights. */
enum kern_sweep { KERN_SWEEP_ALL, KERN_SWEEP_NORMS, KERN_SWEEP_WEIGHTS };
struct kern_optim {
    enum kern_sweep sweep;
    const struct kern_rules *rules;
    const struct kern_decision *decision;
    const struct kern_span *span;
    float *w, *s0, *s1; /* s0: m or v of momentum; s1: v */
    const float *g;
    double *partial;
    int64_t most; /* the largest span's count */
    int n;
};
struct kern_keep { /* dst = src unless skipped */
    const struct kern_decision *decision;
    float *dst;
    const float *src;
    int64_t count;
};
#define KERN_SQUARES_TENSORS 64 /* of one launch */
#define KERN_SQUARES_BLOCKS 128 /* partial sums of a tensor */
struct kern_sum_squares {       /* partial[tensor][block], in double */
    const float *x[KERN_SQUARES_TENSORS];
    int64_t count[KERN_SQUARES_TENSORS];
    double *partial;
    int n;
};
struct kern_sum_doubles { /* sum[tensor] = partial[tensor][0] + … */
    const double *partial;
    double *sum;
    int n;
};
struct kern_scale { /* x ·= factor */
    float *x;
    int64_t count;
    float factor;
};
struct kern_accumulate { /* dst += src */
    float *dst;
    const float *src;
    int64_t count;
};

/* clang-format off */
#define KERN_UPDATE_LIST(X) \
    X(grad_squares, 0) X(decide, 0) X(optim, 0) X(keep, 0) \
    X(sgd, 0) X(sum_squares, 0) X(sum_doubles, 0) X(scale, 0) X(accumulate, 0)
/* clang-format on */

#endif
