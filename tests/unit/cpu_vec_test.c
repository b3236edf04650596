/* The vector kernels: every instruction set gives the bits of the plain one, in every layout and at
 * lengths that leave a rest; batch norm's sums keep their digits far from zero. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/backend/cpu/vec.h"
#include "core/backend/cpu/vec_bn.h"
#include "core/base/rng.h"

enum { ROOM = 5000 };

static struct bst_rng rng;

static void fill(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)bst_rng_normal(&rng);
}

struct buffers {
    _Alignas(64) float x[ROOM], r[ROOM], dy[ROOM], dy2[ROOM], out[2][ROOM], dr[2][ROOM];
    uint8_t open[2][ROOM];
};

static void coefficients(struct cpu_bn_coef *k, int block)
{
    fill((float *)k, sizeof *k / sizeof(float));
    for (int l = block; l < CPU_LANES; l++) {
        float *all[] = {k->mean, k->a, k->b, k->k0, k->k1, k->k2};

        for (int i = 0; i < 6; i++)
            all[i][l] = all[i][l % block];
    }
}

static void compare_planes(struct buffers *b, struct cpu_bn_planes p, const struct cpu_bn_coef *k)
{
    const struct cpu_vec_bn *vec[2] = {cpu_vec_bn_plain(), cpu_vec_bn_best()};
    struct cpu_bn_sums sums[2][2];

    memset(sums, 0, sizeof sums);
    memset(b->out, 0, sizeof b->out);
    memset(b->dr, 0, sizeof b->dr);
    memset(b->open, 0, sizeof b->open);
    for (int v = 0; v < 2; v++) {
        struct cpu_bn_planes back = p;

        p.out = b->out[v];
        p.open = p.r ? b->open[v] : NULL;
        vec[v]->stats(&p, k, &sums[v][0]);
        vec[v]->apply(&p, k);
        cpu_vec_fence();
        back.open = p.open;
        back.dr = p.r ? b->dr[v] : NULL;
        back.out = b->out[v] + ROOM / 2;
        back.r = NULL;
        vec[v]->bwd_reduce(&back, k, &sums[v][1]);
        vec[v]->bwd_apply(&back, k);
    }
    assert_memory_equal(sums[0], sums[1], sizeof sums[0]);
    assert_memory_equal(b->out[0], b->out[1], sizeof b->out[0]);
    assert_memory_equal(b->dr[0], b->dr[1], sizeof b->dr[0]);
    assert_memory_equal(b->open[0], b->open[1], sizeof b->open[0]);
}

static void batch_norm_bits(void **state)
{
    static const int blocks[] = {1, 8, 16}, pixels[] = {1, 3, 17, 49};
    struct buffers *b = malloc(sizeof *b);

    (void)state;
    bst_rng_init(&rng, 1, BST_RNG_INIT, 0);
    for (int i = 0; i < 3 * 4 * 16; i++) {
        int block = blocks[i % 3], px = pixels[i / 3 % 4], flags = i / 12;
        size_t plane = (size_t)(block * px);
        struct cpu_bn_planes p = {.x = b->x, .dy = b->dy, .n = plane, .count = 2, .step = plane};
        struct cpu_bn_coef k;

        fill(b->x, (size_t)(&b->out[0][0] - &b->x[0]));
        coefficients(&k, block);
        p.open_step = (plane + 7) / 8;
        p.relu = flags & 1;
        p.r = flags & 2 ? b->r : NULL;
        p.dy2 = flags & 4 ? b->dy2 : NULL;
        p.stream = flags & 8 && block > 1;
        compare_planes(b, p, &k);
    }
    free(b);
}

static void flat_bits(void **state)
{
    static const size_t lengths[] = {1, 3, 8, 17, 100};
    const struct cpu_vec *vec[2] = {cpu_vec_plain(), cpu_vec_best()};
    const struct cpu_sgd_coef sgd[2] = {{0.1f, 0.9f, 1e-2f, 0.5f, true, false},
                                        {0.1f, 0.9f, 1e-2f, 0.5f, false, true}};

    (void)state;
    for (int i = 0; i < 10; i++) {
        size_t n = lengths[i % 5];
        float x[100], y[100], w[2][100], v[2][100], z[2][100];
        double squares[2];

        fill(x, n);
        fill(y, n);
        x[0] = NAN;
        for (int s = 0; s < 2; s++) {
            memcpy(w[s], x, sizeof x);
            memcpy(v[s], y, sizeof y);
            vec[s]->sgd(w[s], v[s], y, n, &sgd[i / 5]);
            vec[s]->add(z[s], x, y, n);
            vec[s]->relu_bwd(z[s], z[s], x, n);
            vec[s]->relu(z[s], z[s], n);
            vec[s]->scale(z[s], 0.3f, n);
            squares[s] = vec[s]->sum_squares(y, n);
        }
        assert_true(isnan(z[1][0]));
        assert_memory_equal(w[0], w[1], n * sizeof(float));
        assert_memory_equal(v[0], v[1], n * sizeof(float));
        assert_memory_equal(z[0], z[1], n * sizeof(float));
        assert_true(squares[0] == squares[1]);
    }
}

/* Deviation 1 about a mean of 1000: single sums of squares would keep one digit of the variance. */
static void variance_far_from_zero(void **state)
{
    float x[4096];
    struct cpu_bn_planes p = {.x = x, .n = 4096, .count = 1, .step = 4096};
    struct cpu_bn_coef k;
    struct cpu_bn_sums t = {{0}, {0}};
    double mean = 0, var = 0, s = 0, q = 0;

    (void)state;
    for (int i = 0; i < 4096; i++) {
        x[i] = 1000 + (float)bst_rng_normal(&rng);
        mean += (double)x[i] / 4096;
    }
    for (int i = 0; i < 4096; i++)
        var += ((double)x[i] - mean) * ((double)x[i] - mean) / 4096;
    for (int l = 0; l < CPU_LANES; l++)
        k.mean[l] = x[0];
    cpu_vec_bn_best()->stats(&p, &k, &t);
    for (int l = 0; l < CPU_LANES; l++) {
        s += t.s[l] / 4096;
        q += t.q[l] / 4096;
    }
    assert_true(fabs((double)x[0] + s - mean) < 1e-6);
    assert_true(fabs((q - s * s) / var - 1) < 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_norm_bits),
        cmocka_unit_test(flat_bits),
        cmocka_unit_test(variance_far_from_zero),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
