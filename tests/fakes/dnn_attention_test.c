/* Attention on cuDNN's fake, as the composite graph that the real one matches, against plain C in
 * double. */
#include <math.h>

#include "tests/fakes/dnn_support.h"

enum { B = 2, H = 3, S = 6, D = 8 };

struct attention {
    struct graph g;
    struct val *q, *k_t, *v, *o, *stats, *scale;
};

/* Views of one packed [B, S, 3, H, D] block, as a trainer keeps it; here each in a block of its
 * own. */
static struct val *head_view(struct graph *g, bool transposed)
{
    const int64_t row = 3 * H * D;
    return transposed ? graph_strided(g, CUDNN_DATA_HALF, (int64_t[]){B, H, D, S},
                                      (int64_t[]){S * row, D, 1, row}, REAL)
                      : graph_strided(g, CUDNN_DATA_HALF, (int64_t[]){B, H, S, D},
                                      (int64_t[]){S * row, D, row, 1}, REAL);
}

static struct val *scores(struct graph *g, cudnnDataType_t t)
{
    return graph_tensor(g, t, (int64_t[]){B, H, S, S}, NCHW, VIRTUAL);
}

static struct val *per_row(struct graph *g, enum place place)
{
    return graph_tensor(g, CUDNN_DATA_FLOAT, (int64_t[]){B, H, S, 1}, NCHW, place);
}

static void attention_init(struct attention *a)
{
    struct graph *g = &a->g;
    graph_init(g);
    a->q = head_view(g, false);
    a->k_t = head_view(g, true);
    a->v = head_view(g, false);
    a->o = graph_strided(g, CUDNN_DATA_HALF, (int64_t[]){B, H, S, D},
                         (int64_t[]){S * H * D, D, H * D, 1}, REAL);
    a->stats = per_row(g, REAL);
    a->scale = graph_scalar(g, 1 / sqrtf(D));
}

static double score(const struct attention *a, int b, int h, int i, int j)
{
    double s = 0;
    for (int d = 0; d < D; d++)
        s += (double)a->q->v[at4(a->q, b, h, i, d)] * (double)a->k_t->v[at4(a->k_t, b, h, d, j)];
    return s / sqrt(D);
}

/* Row i's probabilities; returns log Σ exp. */
static double softmax_row(const struct attention *a, int b, int h, int i, double p[S])
{
    double sum = 0;
    for (int j = 0; j < S; j++)
        sum += p[j] = exp(score(a, b, h, i, j));
    for (int j = 0; j < S; j++)
        p[j] /= sum;
    return log(sum);
}

static void attention_forward(void **state)
{
    (void)state;
    test_machine(1, 8);
    struct attention a;
    attention_init(&a);
    struct graph *g = &a.g;
    struct val *s = scores(g, CUDNN_DATA_FLOAT), *scaled = scores(g, CUDNN_DATA_FLOAT);
    struct val *most = per_row(g, VIRTUAL), *off = scores(g, CUDNN_DATA_FLOAT);
    struct val *e = scores(g, CUDNN_DATA_FLOAT), *sum = per_row(g, VIRTUAL);
    struct val *lg = per_row(g, VIRTUAL), *p = scores(g, CUDNN_DATA_HALF);
    graph_matmul(g, a.q, a.k_t, s);
    graph_pointwise(g, CUDNN_POINTWISE_MUL, s, a.scale, scaled);
    graph_reduce(g, CUDNN_REDUCE_TENSOR_MAX, scaled, most);
    graph_pointwise(g, CUDNN_POINTWISE_SUB, scaled, most, off);
    graph_pointwise(g, CUDNN_POINTWISE_EXP, off, NULL, e);
    graph_reduce(g, CUDNN_REDUCE_TENSOR_ADD, e, sum);
    graph_pointwise(g, CUDNN_POINTWISE_LOG, sum, NULL, lg);
    graph_pointwise(g, CUDNN_POINTWISE_ADD, most, lg, a.stats);
    graph_pointwise(g, CUDNN_POINTWISE_DIV, e, sum, p);
    graph_matmul(g, p, a.v, a.o);
    graph_run(g, graph_plan(g, 0));
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++)
            for (int i = 0; i < S; i++) {
                double row[S];
                double stat = softmax_row(&a, b, h, i, row);
                test_near(&a.stats->v[at4(a.stats, b, h, i, 0)], &stat, 1, 5e-6, 1);
                for (int d = 0; d < D; d++) {
                    double want = 0;
                    for (int j = 0; j < S; j++)
                        want += row[j] * (double)a.v->v[at4(a.v, b, h, j, d)];
                    test_near(&a.o->v[at4(a.o, b, h, i, d)], &want, 1, 1e-3, 1);
                }
            }
    graph_fini(g);
    test_all_gone();
}

struct backward {
    struct val *d_o, *v_t, *dq, *dk, *dv; /* v_t: the same values as v */
    float o[B * H * S * D];
};

/* What forward leaves, given as if it had run. */
static void give_forward(struct attention *a, struct backward *w)
{
    float stats[B * H * S], v_t[B * H * D * S];
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++)
            for (int i = 0; i < S; i++) {
                double p[S];
                stats[at4(a->stats, b, h, i, 0)] = (float)softmax_row(a, b, h, i, p);
                for (int d = 0; d < D; d++) {
                    double sum = 0;
                    for (int j = 0; j < S; j++)
                        sum += p[j] * (double)a->v->v[at4(a->v, b, h, j, d)];
                    w->o[at4(a->o, b, h, i, d)] = (float)sum;
                    v_t[at4(w->v_t, b, h, d, i)] = a->v->v[at4(a->v, b, h, i, d)];
                }
            }
    graph_put(a->stats, stats);
    graph_put(a->o, w->o);
    graph_put(w->v_t, v_t);
}

/* dV = Pᵀ dO, dS = P ∘ (dO Vᵀ − rowsum(dO ∘ O)) · scale, dK = dSᵀ Q, dQ = dS K; P is recomputed
 * from the statistics. Transposes are reshapes of strides. */
static void describe_backward(struct attention *a, struct backward *w)
{
    struct graph *g = &a->g;
    const int64_t t_dim[DIMS] = {B, H, S, S}, t_str[DIMS] = {H * S * S, S * S, 1, S};
    struct val *oo = graph_tensor(g, CUDNN_DATA_FLOAT, a->o->dim, NCHW, VIRTUAL);
    struct val *row = per_row(g, VIRTUAL);
    struct val *s[8];
    for (int i = 0; i < 8; i++)
        s[i] = scores(g, i == 7 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT);
    struct val *p_t = graph_strided(g, CUDNN_DATA_HALF, t_dim, t_str, VIRTUAL);
    struct val *ds_t = graph_strided(g, CUDNN_DATA_HALF, t_dim, t_str, VIRTUAL);
    struct val *k = graph_strided(g, CUDNN_DATA_HALF, a->q->dim, a->q->stride, VIRTUAL);
    graph_pointwise(g, CUDNN_POINTWISE_MUL, w->d_o, a->o, oo);
    graph_reduce(g, CUDNN_REDUCE_TENSOR_ADD, oo, row);
    graph_matmul(g, a->q, a->k_t, s[0]);
    graph_pointwise(g, CUDNN_POINTWISE_MUL, s[0], a->scale, s[1]);
    graph_pointwise(g, CUDNN_POINTWISE_SUB, s[1], a->stats, s[2]);
    graph_pointwise(g, CUDNN_POINTWISE_EXP, s[2], NULL, s[3]);
    graph_reshape(g, s[3], p_t);
    graph_matmul(g, p_t, w->d_o, w->dv);
    graph_matmul(g, w->d_o, w->v_t, s[4]);
    graph_pointwise(g, CUDNN_POINTWISE_SUB, s[4], row, s[5]);
    graph_pointwise(g, CUDNN_POINTWISE_MUL, s[5], s[3], s[6]);
    graph_pointwise(g, CUDNN_POINTWISE_MUL, s[6], a->scale, s[7]);
    graph_reshape(g, s[7], ds_t);
    graph_matmul(g, ds_t, a->q, w->dk);
    graph_reshape(g, a->k_t, k);
    graph_matmul(g, s[7], k, w->dq);
}

/* P and dS of one head, in double. */
static void head_gradients(const struct attention *a, const struct backward *w, int b, int h,
                           double p[S][S], double ds[S][S])
{
    const struct val *d_o = w->d_o;
    for (int i = 0; i < S; i++) {
        softmax_row(a, b, h, i, p[i]);
        double sum = 0;
        for (int d = 0; d < D; d++)
            sum += (double)d_o->v[at4(d_o, b, h, i, d)] * (double)w->o[at4(a->o, b, h, i, d)];
        for (int j = 0; j < S; j++) {
            double dp = 0;
            for (int d = 0; d < D; d++)
                dp += (double)d_o->v[at4(d_o, b, h, i, d)] * (double)a->v->v[at4(a->v, b, h, j, d)];
            ds[i][j] = p[i][j] * (dp - sum) / sqrt(D);
        }
    }
}

static void check_head(const struct attention *a, const struct backward *w, int b, int h)
{
    double p[S][S], ds[S][S];
    head_gradients(a, w, b, h, p, ds);
    for (int i = 0; i < S; i++)
        for (int d = 0; d < D; d++) {
            double want[3] = {0};
            for (int j = 0; j < S; j++) {
                want[0] += ds[i][j] * (double)a->k_t->v[at4(a->k_t, b, h, d, j)];
                want[1] += ds[j][i] * (double)a->q->v[at4(a->q, b, h, j, d)];
                want[2] += p[j][i] * (double)w->d_o->v[at4(w->d_o, b, h, j, d)];
            }
            test_near(&w->dq->v[at4(w->dq, b, h, i, d)], &want[0], 1, 2e-3, 1);
            test_near(&w->dk->v[at4(w->dk, b, h, i, d)], &want[1], 1, 2e-3, 1);
            test_near(&w->dv->v[at4(w->dv, b, h, i, d)], &want[2], 1, 2e-3, 1);
        }
}

static void attention_backward(void **state)
{
    (void)state;
    test_machine(1, 0);
    struct attention a;
    attention_init(&a);
    struct graph *g = &a.g;
    struct backward w = {.d_o = graph_strided(g, CUDNN_DATA_HALF, a.o->dim, a.o->stride, REAL),
                         .v_t = head_view(g, true),
                         .dq = head_view(g, false),
                         .dk = head_view(g, false),
                         .dv = head_view(g, false)};
    give_forward(&a, &w);
    describe_backward(&a, &w);
    graph_run(g, graph_plan(g, 0));
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++)
            check_head(&a, &w, b, h);
    graph_fini(g);
    test_all_gone();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_forward),
        cmocka_unit_test(attention_backward),
    };
    return cmocka_run_group_tests_name("fakes.cudnn.attention", tests, NULL, NULL);
}
