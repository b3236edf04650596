/* GPUs that need not be here: what presets/devices/NAME.json says of one, or a file of one's own in
 * the same form or as cuDNN itself writes device properties. Plain reading; any thread. */
#ifndef BST_RUN_GPU_H
#define BST_RUN_GPU_H

#include "core/run/preset.h"

struct bst_gpu {
    char id[64];            /* file name without .json */
    char title[96];         /* "NVIDIA A100 SXM4, 80 GB HBM2e" */
    uint64_t memory;        /* bytes that a process sees of it */
    int capability;         /* 80 for 8.0 */
    double memory_gb_s;     /* 1e9 bytes/s; 0: not known */
    double tensor16_tflops; /* dense fp16 and bf16 on tensor cores; 0: not known */
    char *properties;       /* JSON for cuDNN, heap */
    size_t n_properties;
};

/* `what`: a name, or a path (with a slash, or ending in .json). BST_E_NOTFOUND: there is none, and
 * the text lists those there are; BST_E_PARSE: the file is not one. */
BST_MUST_USE enum bst_err bst_gpu_load(const struct bst_preset_env *env, const char *what,
                                       struct bst_gpu *out);
void bst_gpu_fini(struct bst_gpu *g); /* a zeroed one is fine */

#endif
