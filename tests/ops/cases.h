/* The table of instructions to compare: each row builds one or two of them on a rig. */
#ifndef TESTS_OPS_CASES_H
#define TESTS_OPS_CASES_H

#include "tests/ops/rig.h"

struct op_size {
    int n, c, oc, hw; /* images, channels, result channels, height = width */
    struct bst_window window;
    int t, heads; /* of sequences: positions; features are c, rows of a table or classes oc */
};

struct op_case {
    const char *name;
    /* Declares parameters, starts the rig, writes instructions, names outputs. */
    void (*build)(struct rig *r, const struct op_case *oc, const struct op_size *s,
                  unsigned variant);
    unsigned flags;   /* BST_IF_* */
    bool windowed;    /* runs over windows */
    bool matrix;      /* [N, C]: hw plays no part */
    bool sequence;    /* [N, T, C] */
    bool large;       /* a vocabulary */
    bool many;        /* rows of a matrix product */
    bool steady;      /* the number of threads moves no bit */
    bool nan_spreads; /* a NaN may also come out where 0 times it is added */
    bool ties;        /* inputs with equal values */
    /* Terms of the longest sum behind a result. */
    double (*terms)(const struct op_size *s);
    double budget; /* allowed error = budget · (1 + √terms) · 2⁻²⁴ · largest |result| */
    /* A precision of 16 bits: how often a result is rounded to it on its way to where it is read.
     * Its sums are fp32's all the same, so that each rounding adds a unit of the format and nothing
     * else: no part of the allowance grows with the length of a sum but what `budget` gives. */
    int roundings;
};

extern const struct op_case op_cases[];
extern const int n_op_cases;
extern const struct op_case op_seq_cases[]; /* cases_seq.c */
extern const int n_op_seq_cases;

/* Extent of a window's result; 0 when it does not fit. */
int op_out(const struct op_size *s);

#endif
