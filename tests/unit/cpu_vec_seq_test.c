/* The vector kernels for sequences: every instruction set gives the bits of the plain one, at
 * lengths that leave a rest; exponentials, GELUs and sums are as near as single precision allows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/backend/cpu/vec_seq.h"
#include "core/base/rng.h"

enum { ROOM = 1300 };

static struct bst_rng rng;

static void fill(float *x, size_t n, double scale)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(scale * bst_rng_normal(&rng));
}

struct buffers {
    float x[ROOM], y[ROOM], scale[ROOM], shift[ROOM];
    uint32_t words[ROOM];
    struct results {
        float whole[16][ROOM];
        double sums[4][ROOM];
        struct cpu_ln_row row;
    } r[2];
};

static void run_all(const struct cpu_vec_seq *v, const struct buffers *b, struct results *r,
                    size_t n, bool by_tanh)
{
    memset(r, 0, sizeof *r);
    for (int i = 0; i < 10; i++)
        memcpy(r->whole[i], b->x, n * sizeof(float));
    v->bias(r->whole[0], b->y, n);
    v->bias_gelu(r->whole[10], r->whole[1], by_tanh ? b->y : NULL, n, by_tanh);
    v->gelu(r->whole[11], b->x, n, by_tanh);
    v->gelu_bwd(r->whole[2], b->y, r->whole[2], n, by_tanh);
    v->drop(r->whole[3], r->whole[3], b->words, 0x80000000u, 2.0f, n);
    v->add_scaled(r->whole[4], b->y, 0.3f, n);
    v->copy_scaled(r->whole[12], b->y, 0.3f, n);
    r->whole[13][0] = v->dot(b->x, b->y, n);
    v->ln_row(r->whole[14], b->x, b->scale, b->shift, n, 1e-5, &r->row);
    v->ln_row_bwd(r->whole[5], b->y, r->whole[5], b->scale, n, &r->row);
    for (size_t c = 0; c < n && n / 3; c += CPU_COLUMNS) {
        size_t k = n / 3 - c < CPU_COLUMNS ? n / 3 - c : CPU_COLUMNS;
        struct cpu_ln_row rows[3] = {{0.1f, 1.5f}, {-0.3f, 0.7f}, {0, 1}};

        if (c >= n / 3)
            break;
        v->columns_sum(r->sums[0] + c, b->x + c, n / 3, 3, k);
        v->columns_ln(r->sums[1] + c, r->sums[2] + c, b->x + c, b->y + c, n / 3, 3, rows, k);
    }
    r->whole[13][1] = v->max(b->x, n);
    r->sums[3][0] = v->sum(b->x, n);
    r->sums[3][1] = v->exp_sum(r->whole[6], r->whole[6], 0.7f, 1.5f, n);
    r->sums[3][2] = v->exp_sum(NULL, b->x, 0.7f, 1.5f, n);
    v->affine(r->whole[7], 0.3f, -0.2f, n);
    v->softmax_bwd(r->whole[8], b->y, 0.4f, 0.3f, n);
}

static void same_bits(void **state)
{
    static const size_t lengths[] = {1, 3, 8, 17, 64, 100, 512, 531, 1024, 1283};
    struct buffers *b = calloc(1, sizeof *b);

    (void)state;
    bst_rng_init(&rng, 1, BST_RNG_TEST, 0);
    for (int i = 0; i < 20; i++) {
        size_t n = lengths[i % 10];

        fill(b->x, (size_t)(ROOM * 4), 2);
        for (int k = 0; k < ROOM; k++)
            b->words[k] = bst_rng_u32(&rng);
        run_all(cpu_vec_seq_plain(), b, &b->r[0], n, i / 10);
        run_all(cpu_vec_seq_best(), b, &b->r[1], n, i / 10);
        assert_memory_equal(&b->r[0], &b->r[1], sizeof b->r[0]);
        assert_true(b->r[0].sums[3][1] == b->r[0].sums[3][2]);
    }
    free(b);
}

static void tiles_multiply(void **state)
{
    static const int sizes[][3] = {{4, 16, 1}, {64, 64, 17}, {8, 48, 64}, {6, 32, 3}, {2, 16, 64}};
    const struct cpu_vec_seq *v[2] = {cpu_vec_seq_plain(), cpu_vec_seq_best()};
    static float a[64 * 64], b[64 * 64], c[64 * 64];

    (void)state;
    for (int s = 0; s < 5 * 4; s++) {
        int m = sizes[s / 4][0], n = sizes[s / 4][1], k = sizes[s / 4][2];
        bool turned = s & 1;
        struct cpu_tile t = {.a = a, .b = b, .c = c, .m = m, .n = n, .k = k, .add = s & 2};

        t.a_row = turned ? 1 : (size_t)k;
        t.a_col = turned ? (size_t)m : 1;
        t.b_row = t.c_row = (size_t)n;
        for (int w = 0; w < 2; w++) {
            fill(a, 64 * 64, 1);
            fill(b, 64 * 64, 1);
            for (int i = 0; i < 64 * 64; i++)
                c[i] = t.add ? 3.0f : NAN;
            v[w]->tile(&t);
            for (int i = 0; i < m * n; i++) {
                double want = t.add ? 3 : 0;

                for (int p = 0; p < k; p++)
                    want += (double)a[(size_t)(i / n) * t.a_row + (size_t)p * t.a_col] *
                            (double)b[p * n + i % n];
                assert_true(fabs((double)c[i] - want) < 5e-5);
            }
        }
    }
}

static void turned_is_turned(void **state)
{
    const struct cpu_vec_seq *v[2] = {cpu_vec_seq_plain(), cpu_vec_seq_best()};
    static float from[24 * 40], to[32 * 30];

    (void)state;
    for (int i = 0; i < 24 * 40; i++)
        from[i] = (float)i;
    for (int w = 0; w < 2; w++) {
        memset(to, 0, sizeof to);
        v[w]->turn(to, 30, from, 40, 24, 32);
        for (int i = 0; i < 32 * 30; i++)
            assert_true(to[i] == (i % 30 < 24 ? from[i % 30 * 40 + i / 30] : 0));
    }
}

static void near(float got, double want, double relative, double absolute, double at)
{
    if (!(fabs((double)got - want) <= relative * fabs(want) + absolute))
        fail_msg("at %.9g: %.9g, not %.9g", at, (double)got, want);
}

static void functions_are_accurate(void **state)
{
    const struct cpu_vec_seq *v = cpu_vec_seq_best();
    const double c = 0.7978845608028654;

    (void)state;
    for (double at = -20; at <= 20; at += 0.00731) {
        float x[8], y[8];
        const float ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
        double p, t;

        for (int i = 0; i < 8; i++)
            x[i] = (float)at;
        p = (double)x[0];
        v->exp_sum(y, x, 1.0f, 0.0f, 8);
        near(y[0], exp(p), 2.5e-7, 0, p);
        v->exp_sum(y, x, 4.0f, 0.0f, 8); /* to both ends of what floats hold */
        near(y[0], exp(4 * p), 4e-7, 1.2e-38, p);
        v->gelu(y, x, 8, false);
        near(y[0], 0.5 * p * erfc(-p / sqrt(2)), 4e-6, 3e-7, p);
        v->gelu_bwd(y, ones, x, 8, false);
        near(y[0], 0.5 * erfc(-p / sqrt(2)) + p * exp(-p * p / 2) / sqrt(8 * atan(1)), 4e-6, 3e-7,
             p);
        t = tanh(c * (p + 0.044715 * p * p * p));
        v->gelu(y, x, 8, true);
        near(y[0], 0.5 * p * (1 + t), 4e-7, 4e-7, p);
        v->gelu_bwd(y, ones, x, 8, true);
        near(y[0], 0.5 * (1 + t) + 0.5 * p * (1 - t * t) * c * (1 + 3 * 0.044715 * p * p), 1e-6,
             1e-6, p);
    }
}

static void edges(void **state)
{
    const struct cpu_vec_seq *v = cpu_vec_seq_best();
    float x[8] = {-INFINITY, -1e30f, -88, 0, NAN, 1, 2, 3}, y[8];

    (void)state;
    assert_true(isnan(v->exp_sum(y, x, 1.0f, 0.0f, 8)));
    assert_true(y[0] == 0 && y[1] == 0 && y[2] == 0 && y[3] == 1 && isnan(y[4]));
    v->gelu(y, x, 8, false);
    assert_true(isnan(y[4]) && y[3] == 0);
    v->gelu(y, x, 8, true);
    assert_true(isnan(y[4]) && y[3] == 0);
    assert_true(v->max(x, 8) == 3);
}

/* Deviation 1 about a mean of 1000. */
static void layer_norm_far_from_zero(void **state)
{
    static float x[1024], y[1024], one[1024], zero[1024];
    struct cpu_ln_row row;
    double mean = 0, var = 0;

    (void)state;
    for (int i = 0; i < 1024; i++) {
        x[i] = 1000 + (float)bst_rng_normal(&rng);
        one[i] = 1;
        mean += (double)x[i] / 1024;
    }
    for (int i = 0; i < 1024; i++)
        var += ((double)x[i] - mean) * ((double)x[i] - mean) / 1024;
    cpu_vec_seq_best()->ln_row(y, x, one, zero, 1024, 1e-5, &row);
    assert_true(fabs((double)row.inv * sqrt(var + 1e-5) - 1) < 2e-7);
    for (int i = 0; i < 1024; i++) /* the mean is known to half a unit of a thousand */
        assert_true(fabs((double)y[i] - ((double)x[i] - mean) / sqrt(var + 1e-5)) < 1e-4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits),
        cmocka_unit_test(tiles_multiply),
        cmocka_unit_test(turned_is_turned),
        cmocka_unit_test(functions_are_accurate),
        cmocka_unit_test(edges),
        cmocka_unit_test(layer_norm_far_from_zero),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
