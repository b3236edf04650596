/* What cuDNN would do for a convolution on a GPU that need not be there: whether it has a plan, and
 * the workspace this plan takes, to the byte. Asked through a module that is opened at run time
 * (plan_cuda.so), so that nothing here needs cuDNN; its answers are kept on disk, by cuDNN's
 * version and the device's properties. One thread a planner. */
#ifndef BST_BACKEND_CONV_PLAN_H
#define BST_BACKEND_CONV_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

/* What tensors and filters hold; sums are in fp32 always. TF32 is fp32 with factors rounded to 10
 * bits of mantissa, on tensor cores. */
#define BST_CONV_TYPES(X) X(FP32, "fp32") X(TF32, "tf32") X(FP16, "fp16") X(BF16, "bf16")
#define BST_CONV_PASSES(X) X(FWD, "fwd") X(BWD_DATA, "data") X(BWD_WEIGHT, "weight")

enum bst_conv_type {
#define X(name, word) BST_CONV_##name,
    BST_CONV_TYPES(X)
#undef X
        BST_CONV_N_TYPES
};
enum bst_conv_pass {
#define X(name, word) BST_CONV_##name,
    BST_CONV_PASSES(X)
#undef X
        BST_CONV_N_PASSES
};

const char *bst_conv_type_name(enum bst_conv_type type);
const char *bst_conv_pass_name(enum bst_conv_pass pass);

struct bst_conv_ask {
    enum bst_conv_pass pass;
    enum bst_conv_type type;
    int n, c, h, w; /* of the input, NHWC in memory */
    int k, kernel, stride, pad;
    bool sums;              /* FWD: with the sums that a batch norm behind it needs */
    bool add;               /* BWD_*: added to what is there */
    bool deterministic;     /* no engine that adds in an order of its own */
    int64_t workspace_most; /* bytes; plans with more are passed over; < 0: none is */
};

struct bst_conv_answer {
    bool accepted; /* else nothing else is known */
    bool fallback; /* by no engine of the heuristics, but by one that takes whatever comes */
    int64_t workspace;
    int64_t engine;
    unsigned notes; /* numerical ones, cuDNN's bits */
};

/* What a module exports under the name "bst_conv_module". Errors travel as code and text, since its
 * copy of bst_fail() has a text of its own. */
enum { BST_CONV_MODULE_ABI = 1, BST_CONV_WHY = 256 };

struct bst_conv_module {
    int abi;
    long (*version)(void); /* of cuDNN, 91900 for 9.19.0 */
    enum bst_err (*open)(const char *properties, size_t bytes, void **device,
                         char why[BST_CONV_WHY]);
    void (*close)(void *device);
    /* Not being accepted is an answer, not an error. */
    enum bst_err (*ask)(void *device, const struct bst_conv_ask *ask, struct bst_conv_answer *out,
                        char why[BST_CONV_WHY]);
};

struct bst_conv_planner;

/* `properties`: a device's, as cuDNN writes them (JSON). `cache`: folder of the answers; NULL:
 * $XDG_CACHE_HOME/bstune, or ~/.cache/bstune; "": nothing is kept. BST_E_LIBRARY: the module or
 * cuDNN is not here. */
BST_MUST_USE enum bst_err bst_conv_planner_open(const char *properties, size_t bytes,
                                                const char *cache, struct bst_conv_planner **out);
/* Writes new answers to disk; where that fails they are asked again next time. */
void bst_conv_planner_close(struct bst_conv_planner *p);

BST_MUST_USE enum bst_err bst_conv_planner_ask(struct bst_conv_planner *p,
                                               const struct bst_conv_ask *ask,
                                               struct bst_conv_answer *out);
/* Version of the cuDNN that would be asked, "9.19.0"; errors as above. */
BST_MUST_USE enum bst_err bst_conv_cudnn_version(char out[32]);
const char *bst_conv_planner_cudnn(const struct bst_conv_planner *p);
/* Questions so far, and those of them that cuDNN was asked. */
void bst_conv_planner_count(const struct bst_conv_planner *p, int *asked, int *planned);

#endif
