/* Momentum correction at a change of rate (Goyal et al. 2017, remark 2). Pure. */
#ifndef BST_TUNE_MOMENTUM_H
#define BST_TUNE_MOMENTUM_H

enum bst_momentum_form {
    BST_MOMENTUM_RATE_OUTSIDE, /* v := μv + g;       w -= lr·v  (PyTorch) */
    BST_MOMENTUM_RATE_INSIDE,  /* v := μv + lr·g;    w -= v     (Caffe, the paper) */
};

/* What the stored velocity is multiplied by, so that both forms give equal weights ever after. */
static inline double bst_momentum_correction(enum bst_momentum_form form, double lr_before,
                                             double lr_after)
{
    /* From a rate of 0 there is nothing to carry over. */
    if (form == BST_MOMENTUM_RATE_OUTSIDE || !(lr_before > 0))
        return 1;
    return lr_after / lr_before;
}

#endif
