/* What a run computes in: the format of activations, of their gradients and of the factors of
 * convolutions and matrix products. Weights, their gradients, optimizer state, statistics, the loss
 * and every sum are fp32 whatever this is; ref64 has doubles throughout. Plain values. */
#ifndef BST_BACKEND_PRECISION_H
#define BST_BACKEND_PRECISION_H

/* tf32: held as fp32, factors rounded to 10 bits of mantissa on the way into tensor cores. */
#define BST_PRECISIONS(X) X(FP32, "fp32") X(TF32, "tf32") X(FP16, "fp16") X(BF16, "bf16")

enum bst_precision {
#define X(name, text) BST_PRECISION_##name,
    BST_PRECISIONS(X)
#undef X
        BST_N_PRECISIONS
};

static inline const char *bst_precision_name(enum bst_precision p)
{
    static const char *const names[] = {
#define X(name, text) text,
        BST_PRECISIONS(X)
#undef X
    };
    return names[p];
}

#endif
