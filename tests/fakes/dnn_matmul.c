/* Matrix products, reshapes and random numbers. */
#include <stdlib.h>
#include <string.h>

#include "tests/fakes/dnn.h"

/* Offset of batch z (row-major over the dimensions of y before the last two) in t. A dimension of t
 * that is smaller than y's is shared: by all where it is 1, else by groups of equal size. */
static int64_t batch_offset(const struct tensor *t, const struct tensor *y, int64_t z)
{
    int64_t off = 0;
    for (int i = y->nd - 3; i >= 0; i--) {
        int64_t at = z % y->dim[i];
        z /= y->dim[i];
        off += at * t->dim[i] / y->dim[i] * t->step[i];
    }
    return off;
}

/* How far a sequence goes in batch z: what an override says, else all of it. */
static int64_t limit_of(const struct tensor *override, const struct tensor *y, int64_t z,
                        int64_t all)
{
    if (!override)
        return all;
    int64_t n = (int64_t) override->v[batch_offset(override, y, z)];
    return n < all ? n : all;
}

struct matrix {
    const float *v;
    int64_t row, col;
};

/* One product, y zeroed beforehand; what lies beyond the limits stays 0. */
static void multiply(const struct matrix *a, const struct matrix *b, float *y, int64_t y_row,
                     int64_t y_col, const int64_t limit[3], double *line)
{
    for (int64_t i = 0; i < limit[0]; i++) {
        memset(line, 0, (size_t)limit[1] * sizeof *line);
        for (int64_t k = 0; k < limit[2]; k++) {
            double v = (double)a->v[i * a->row + k * a->col];
            const float *row = b->v + k * b->row;
            for (int64_t j = 0; j < limit[1]; j++)
                line[j] += v * (double)row[j * b->col];
        }
        for (int64_t j = 0; j < limit[1]; j++)
            y[i * y_row + j * y_col] = (float)line[j];
    }
}

#define MATMUL(name) run_operand(r, op, CUDNN_ATTR_OPERATION_MATMUL_##name)

void dnn_run_matmul(struct run *r, const struct desc *op)
{
    const struct tensor *a = MATMUL(ADESC);
    const struct tensor *b = MATMUL(BDESC);
    struct tensor *y = MATMUL(CDESC);
    int row = y->nd - 2;
    int col = y->nd - 1;
    if (a->nd != y->nd || b->nd != y->nd || row < 0 || a->dim[row] != y->dim[row] ||
        b->dim[col] != y->dim[col] || a->dim[col] != b->dim[row]) {
        run_error(r, "a matmul's shapes do not fit");
        return;
    }
    int64_t n_batches = y->n / (y->dim[row] * y->dim[col]);
    double *line = malloc((size_t)y->dim[col] * sizeof *line);
    for (int64_t z = 0; z < n_batches; z++) {
        const int64_t limit[3] = {limit_of(MATMUL(GEMM_M_OVERRIDE_DESC), y, z, y->dim[row]),
                                  limit_of(MATMUL(GEMM_N_OVERRIDE_DESC), y, z, y->dim[col]),
                                  limit_of(MATMUL(GEMM_K_OVERRIDE_DESC), y, z, a->dim[col])};
        struct matrix ma = {a->v + batch_offset(a, y, z), a->step[row], a->step[col]};
        struct matrix mb = {b->v + batch_offset(b, y, z), b->step[row], b->step[col]};
        multiply(&ma, &mb, y->v + batch_offset(y, y, z), y->step[row], y->step[col], limit, line);
    }
    free(line);
}

/* The same memory seen with other strides: packed values keep their order. */
void dnn_run_reshape(struct run *r, const struct desc *op)
{
    const struct tensor *x = run_operand(r, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
    struct tensor *y = run_operand(r, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
    if (x->n == y->n)
        memcpy(y->v, x->v, (size_t)x->n * sizeof *x->v);
    else
        run_error(r, "a reshape changes the number of elements");
}

/* A tensor's first element in full, which its float copy could not hold; or the attribute itself.
 */
static uint64_t seed_value(struct run *r, const struct desc *op, int name)
{
    const struct attr *a = desc_find(op, name);
    if (!a)
        return 0;
    if (a->type != CUDNN_TYPE_BACKEND_DESCRIPTOR)
        return (uint64_t)desc_i64(op, name, 0);
    const struct tensor *t = run_operand(r, op, name);
    if (t->data_type == CUDNN_DATA_INT64 && t->mem)
        return *(const uint64_t *)t->mem;
    return (uint64_t)t->v[0];
}

/* A uniform number for an element: a function of seed, offset and place alone (not cuDNN's bits).
 */
static double uniform(uint64_t seed, uint64_t offset, uint64_t i)
{
    uint64_t z = seed * 0x9e3779b97f4a7c15u + offset * 0xd1b54a32d192ed03u + i;
    for (int k = 0; k < 2; k++) {
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        z ^= z >> 31;
    }
    return (double)(z >> 11) * 0x1p-53;
}

void dnn_run_rng(struct run *r, const struct desc *op)
{
    const struct desc *d = desc_child(op, CUDNN_ATTR_OPERATION_RNG_DESC, 0);
    struct tensor *y = run_operand(r, op, CUDNN_ATTR_OPERATION_RNG_YDESC);
    int kind = desc_int(d, CUDNN_ATTR_RNG_DISTRIBUTION, -1);
    uint64_t seed = seed_value(r, op, CUDNN_ATTR_OPERATION_RNG_SEED);
    uint64_t offset = seed_value(r, op, CUDNN_ATTR_OPERATION_RNG_OFFSET_DESC);
    double p = desc_real(d, CUDNN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY, 0.5);
    double low = desc_real(d, CUDNN_ATTR_RNG_UNIFORM_DIST_MINIMUM, 0);
    double high = desc_real(d, CUDNN_ATTR_RNG_UNIFORM_DIST_MAXIMUM, 1);
    if (kind != CUDNN_RNG_DISTRIBUTION_BERNOULLI && kind != CUDNN_RNG_DISTRIBUTION_UNIFORM) {
        run_error(r, "a random distribution that is not faked");
        return;
    }
    for (int64_t i = 0; i < y->n; i++) {
        double u = uniform(seed, offset, (uint64_t)i);
        y->v[i] =
            kind == CUDNN_RNG_DISTRIBUTION_BERNOULLI ? u < p : (float)(low + (high - low) * u);
    }
}
