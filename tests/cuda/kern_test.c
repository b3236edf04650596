/* The kernels in 16 bits: conversions as the processor's own, and every typed kernel on numbers
 * that a 16-bit type holds comes to what the fp32 one comes to, rounded once where it is stored. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/backend/cuda/kern_seq_body.h"
#include "core/base/rng.h"
#include "tests/fakes/fake.h"

enum { MOST = 1 << 14, TENSORS = 5 };

static const enum kern_type half_types[] = {KERN_F16, KERN_BF16};

/* As the kernels' own launch does, but at once. */
static void launch(const char *kernel, enum kern_type type, const void *args)
{
    static const char *const suffix[] = {"_f32", "_f16", "_bf16"};
    void *const list[] = {(void *)args};
    char name[64];

    snprintf(name, sizeof name, "bst_%s%s", kernel, suffix[type]);
    for (const struct fake_kernel *k = fake_kernels; k->name; k++) {
        if (strcmp(k->name, name))
            continue;
        k->run((dim3){1, 1, 1}, (dim3){1, 1, 1}, list);
        return;
    }
    fail_msg("there is no kernel %s", name);
}

static bool is_nan16(uint16_t v, enum kern_type type)
{
    return type == KERN_F16 ? (v & 0x7c00u) == 0x7c00u && (v & 0x3ffu)
                            : (v & 0x7f80u) == 0x7f80u && (v & 0x7fu);
}

static uint16_t to16(float f, enum kern_type type)
{
    return type == KERN_F16 ? kern_to_f16(f) : kern_to_bf16(f);
}

static float from16(uint16_t v, enum kern_type type)
{
    return type == KERN_F16 ? kern_from_f16(v) : kern_from_bf16(v);
}

/* Its value by the definition of the format: sign, exponent, fraction. */
static double value_of(uint16_t v, int exponent_bits, int bias)
{
    const int fraction_bits = 15 - exponent_bits;
    const int exponent = v >> fraction_bits & ((1 << exponent_bits) - 1);
    const double fraction = v & ((1 << fraction_bits) - 1);
    const double size = exponent ? ldexp(1 + ldexp(fraction, -fraction_bits), exponent - bias)
                                 : ldexp(fraction, 1 - bias - fraction_bits);

    return v >> 15 ? -size : size;
}

static void every_pattern_is_its_value_and_comes_back(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        const enum kern_type type = half_types[t];
        const int bits = type == KERN_F16 ? 5 : 8, bias = type == KERN_F16 ? 15 : 127;

        for (uint32_t u = 0; u < 65536; u++) {
            const uint16_t v = (uint16_t)u;
            const float f = from16(v, type);

            if (is_nan16(v, type)) {
                assert_true(isnan(f));
                assert_int_equal(to16(f, type), 0x7fff);
                continue;
            }
            assert_int_equal(to16(f, type), v);
            if (isinf(f))
                assert_int_equal(v & 0x7fffu, type == KERN_F16 ? 0x7c00 : 0x7f80);
            else
                assert_true((double)f == value_of(v, bits, bias));
        }
    }
}

/* Between two neighbours, at their middle, and a float to either side of it. */
static void rounding_is_to_nearest_even(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        const enum kern_type type = half_types[t];
        const uint16_t largest = type == KERN_F16 ? 0x7bff : 0x7f7f;

        for (uint16_t v = 0; v < largest; v++) {
            const double low = (double)from16(v, type), high = (double)from16(v + 1, type);
            const float middle = (float)((low + high) / 2); /* a float holds it */
            const uint16_t even = v % 2 ? v + 1 : v;

            assert_int_equal(to16(middle, type), even);
            assert_int_equal(to16(nextafterf(middle, -1), type), v);
            assert_int_equal(to16(nextafterf(middle, INFINITY), type), v + 1);
            assert_int_equal(to16(-middle, type), even | 0x8000);
        }
    }
    assert_int_equal(kern_to_f16(65519.996F), 0x7bff);
    assert_int_equal(kern_to_f16(65520), 0x7c00);
    assert_int_equal(kern_to_f16(-1e30F), 0xfc00);
    assert_int_equal(kern_to_f16(1e-9F), 0);
    assert_int_equal(kern_to_bf16(3.4e38F), 0x7f80);
}

/* One set of numbers in fp32 and in a 16-bit type, and room for results of both. */
struct pair {
    enum kern_type type;
    _Alignas(16) float in[TENSORS][MOST], out[2][MOST]; /* as device memory is */
    uint16_t in16[TENSORS][MOST], out16[2][MOST];
    float channel[8][64];
    uint8_t bytes[2][MOST];
};

static void fill(struct pair *p, enum kern_type type, uint64_t seed)
{
    struct bst_rng rng;

    bst_rng_init(&rng, seed, BST_RNG_TEST, (uint64_t)type);
    p->type = type;
    for (int k = 0; k < TENSORS; k++) {
        for (int i = 0; i < MOST; i++) {
            p->in16[k][i] = to16((float)bst_rng_normal(&rng), type);
            p->in[k][i] = from16(p->in16[k][i], type);
        }
    }
    for (int k = 0; k < 8; k++)
        for (int i = 0; i < 64; i++)
            p->channel[k][i] = (float)(0.2 + fabs(bst_rng_normal(&rng)));
    memset(p->out, 0xff, sizeof p->out);
    memset(p->out16, 0xff, sizeof p->out16);
}

static void same(const struct pair *p, int which, int64_t n, const char *what, int c)
{
    for (int64_t i = 0; i < n; i++) {
        if (p->out16[which][i] != to16(p->out[which][i], p->type))
            fail_msg("%s, %d channels, type %d: element %d is %g, not %g", what, c, (int)p->type,
                     (int)i, (double)from16(p->out16[which][i], p->type), (double)p->out[which][i]);
    }
    assert_true(n == MOST || p->out16[which][n] == 0xffff); /* and nothing behind it */
}

static struct kern_bn_coef coefficients(struct pair *p)
{
    return (struct kern_bn_coef){p->channel[0], p->channel[1], p->channel[2], p->channel[3], false};
}

static void check_bn_fwd(struct pair *p, int64_t rows, int c, bool residual)
{
    struct kern_bn_apply a = {
        .x = p->in[0],
        .residual = residual ? p->in[1] : NULL,
        .y = p->out[0],
        .mask = residual ? p->bytes[0] : NULL,
        .bn = coefficients(p),
        .rows = rows,
        .c = c,
        .relu = true,
    };

    launch("bn_apply", KERN_F32, &a);
    a.x = p->in16[0];
    a.residual = residual ? p->in16[1] : NULL;
    a.y = p->out16[0];
    a.mask = residual ? p->bytes[1] : NULL;
    launch("bn_apply", p->type, &a);
    same(p, 0, rows * c, "bn_apply", c);
    if (residual)
        assert_memory_equal(p->bytes[0], p->bytes[1], (size_t)(rows * c + 7) / 8);
}

static void check_bn_sums(struct pair *p, int64_t rows, int c)
{
    const int chunks = kern_chunks(rows, c);
    float partial[2][2 * 64 * 64], saved[2][128];
    float *run[2][2] = {{p->channel[4], p->channel[5]}, {p->channel[6], p->channel[7]}};

    assert_true(chunks <= 64);
    for (int k = 0; k < 2; k++) {
        const enum kern_type type = k ? p->type : KERN_F32;
        const void *x = k ? (void *)p->in16[0] : (void *)p->in[0];
        const struct kern_bn_stats sums = {x, partial[k], rows, c, chunks};
        const struct kern_bn_finish finish = {x,         partial[k], saved[k], run[k][0],
                                              run[k][1], rows,       c,        chunks};

        launch("bn_stats", type, &sums);
        launch("bn_finish", type, &finish);
    }
    assert_memory_equal(partial[0], partial[1], (size_t)(2 * chunks * c) * sizeof(float));
    assert_memory_equal(saved[0], saved[1], 2 * (size_t)c * sizeof(float));
}

static void check_bn_bwd(struct pair *p, int64_t rows, int c, bool residual)
{
    struct kern_bn_bwd_sums sums[2];
    struct kern_bn_bwd_apply a[2];
    const int chunks = kern_chunks(rows, c);
    float partial[2][2 * 64 * 64];

    for (int k = 0; k < 2; k++) {
        const void *x = k ? (void *)p->in16[0] : (void *)p->in[0];
        const void *dy = k ? (void *)p->in16[1] : (void *)p->in[1];
        const void *dy2 = k ? (void *)p->in16[2] : (void *)p->in[2];
        const struct kern_bn_grad g = {x,   dy, dy2, residual ? p->bytes[0] : NULL, coefficients(p),
                                       true};

        sums[k] = (struct kern_bn_bwd_sums){g, partial[k], rows, c, chunks};
        a[k] = (struct kern_bn_bwd_apply){
            g,
            p->channel[0],
            k ? (void *)p->out16[0] : (void *)p->out[0],
            k ? (void *)p->out16[1] : (void *)p->out[1],
            rows,
            c,
        };
        a[k].means = p->in[3]; /* 2·c of them */
        launch("bn_bwd_sums", k ? p->type : KERN_F32, &sums[k]);
        launch("bn_bwd_apply", k ? p->type : KERN_F32, &a[k]);
    }
    assert_memory_equal(partial[0], partial[1], (size_t)(2 * chunks * c) * sizeof(float));
    same(p, 0, rows * c, "bn_bwd_apply", c);
    same(p, 1, rows * c, "bn_bwd_apply's residual", c);
}

static void batch_norm_rounds_once(void **state)
{
    static const int channels[] = {1, 3, 8, 17, 64};
    static struct pair p;

    (void)state;
    for (int i = 0; i < 10; i++) {
        const int c = channels[i % 5];
        const int64_t rows = 1003 / c + 3;

        fill(&p, half_types[i / 5], (uint64_t)i);
        check_bn_fwd(&p, rows, c, false);
        check_bn_sums(&p, rows, c);
        check_bn_bwd(&p, rows, c, false);
        fill(&p, half_types[i / 5], (uint64_t)i + 100);
        check_bn_fwd(&p, rows, c, true);
        check_bn_bwd(&p, rows, c, true);
    }
}

static void element_by_element_rounds_once(void **state)
{
    static const enum kern_pointwise_op list[] = {KERN_RELU, KERN_RELU_BWD, KERN_ADD};
    static struct pair p;

    (void)state;
    for (int i = 0; i < 6; i++) {
        struct kern_pointwise a = {list[i % 3], NULL, NULL, NULL, 1003};

        fill(&p, half_types[i / 3], (uint64_t)i);
        a.a = p.in[0], a.b = p.in[1], a.dst = p.out[0];
        launch("pointwise", KERN_F32, &a);
        a.a = p.in16[0], a.b = p.in16[1], a.dst = p.out16[0];
        launch("pointwise", p.type, &a);
        same(&p, 0, a.count, "pointwise", 0);
    }
}

/* Down as every element alone; back exactly, or added in fp32. Nothing behind the end. */
static void casts_round_once_and_come_back(void **state)
{
    static struct pair p;
    static float wide[MOST], back[MOST];
    enum { N = 1003 };

    (void)state;
    for (int i = 0; i < 2; i++) {
        const enum kern_type type = half_types[i];
        struct kern_cast a = {wide, p.out16[0], N, false, false};

        fill(&p, type, (uint64_t)i);
        for (int k = 0; k < MOST; k++)
            wide[k] = p.in[0][k] * 1.2345F + p.in[1][k] * 1e-3F;
        memcpy(p.out[0], wide, sizeof wide);
        launch("cast", type, &a);
        same(&p, 0, N, "cast", 0);
        memcpy(back, p.in[2], sizeof back);
        a = (struct kern_cast){p.out16[0], back, N, true, false};
        launch("cast", type, &a);
        for (int k = 0; k < N; k++)
            assert_true(back[k] == from16(p.out16[0][k], type));
        a.add = true;
        launch("cast", type, &a);
        for (int k = 0; k < N; k++)
            assert_true(back[k] == 2 * from16(p.out16[0][k], type));
        assert_true(back[N] == p.in[2][N]);
    }
}

/* What is cast may start at any element, as a part of a weight does. */
static void casts_start_anywhere(void **state)
{
    static struct pair p;
    static float wide[MOST], back[MOST];
    enum { N = 50 };

    (void)state;
    for (int i = 0; i < 2 * 4 * 8; i++) {
        const enum kern_type type = half_types[i % 2];
        const int w = i / 2 % 4, h = i / 8;
        struct kern_cast a = {wide + w, p.out16[0] + h, N, false, false};

        fill(&p, type, (uint64_t)i);
        memcpy(wide, p.in[0], sizeof wide);
        launch("cast", type, &a);
        for (int k = 0; k < N; k++)
            assert_int_equal(p.out16[0][h + k], to16(wide[w + k], type));
        memset(back, 0, sizeof back);
        a = (struct kern_cast){p.out16[0] + h, back + w, N, true, true};
        for (int uses = 1; uses <= 2; uses++) {
            launch("cast", type, &a);
            for (int k = 0; k < N; k++)
                assert_true(back[w + k] == (float)uses * from16(p.out16[0][h + k], type));
        }
        assert_true(back[w + N] == 0);
    }
}

static void pooling_rounds_once(void **state)
{
    static struct pair p;

    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct kern_windows w = {2, 17, 9, 7, 5, 4, 3, 2, 1};
        struct kern_max_pool f = {NULL, NULL, p.bytes[0], w};
        struct kern_max_pool_bwd b = {NULL, p.bytes[0], NULL, w};

        fill(&p, half_types[i], (uint64_t)i);
        f.x = p.in[0], f.y = p.out[0];
        launch("max_pool", KERN_F32, &f);
        f.x = p.in16[0], f.y = p.out16[0], f.tap = p.bytes[1];
        launch("max_pool", p.type, &f);
        same(&p, 0, (int64_t)2 * 5 * 4 * 17, "max_pool", 17);
        assert_memory_equal(p.bytes[0], p.bytes[1], 2 * 5 * 4 * 17);
        b.dy = p.in[1], b.dx = p.out[1];
        launch("max_pool_bwd", KERN_F32, &b);
        b.dy = p.in16[1], b.dx = p.out16[1];
        launch("max_pool_bwd", p.type, &b);
        same(&p, 1, (int64_t)2 * 9 * 7 * 17, "max_pool_bwd", 17);
    }
}

static void mean_pooling_rounds_once(void **state)
{
    static struct pair p;
    float y[2][3 * 17];

    (void)state;
    for (int i = 0; i < 2; i++) {
        fill(&p, half_types[i], (uint64_t)i);
        const struct kern_avg_pool f[2] = {{p.in[0], y[0], 3, 17, 49},
                                           {p.in16[0], y[1], 3, 17, 49}};
        const struct kern_avg_pool_bwd b[2] = {{p.in[1], p.out[0], 3, 17, 49},
                                               {p.in[1], p.out16[0], 3, 17, 49}};
        for (int k = 0; k < 2; k++) {
            launch("avg_pool", k ? p.type : KERN_F32, &f[k]);
            launch("avg_pool_bwd", k ? p.type : KERN_F32, &b[k]);
        }
        assert_memory_equal(y[0], y[1], sizeof y[0]);
        same(&p, 0, (int64_t)3 * 49 * 17, "avg_pool_bwd", 17);
    }
}

static void images_round_once_and_are_padded(void **state)
{
    static struct pair p;

    (void)state;
    for (int i = 0; i < 2; i++) {
        const int padded = i ? 8 : 4;
        struct kern_image a = {NULL, p.bytes[0], {0.01F, 0.02F, 0.005F}, {-1, 0.5F, -0.3F}, 100, 90,
                               3,    padded};

        fill(&p, half_types[i], (uint64_t)i);
        for (int k = 0; k < 300; k++)
            p.bytes[0][k] = (uint8_t)(k * 37);
        a.dst = p.out[0];
        launch("image", KERN_F32, &a);
        a.dst = p.out16[0];
        launch("image", p.type, &a);
        same(&p, 0, (int64_t)100 * padded, "image", padded);
        assert_true(p.out[0][0] == fmaf(0, 0.01F, -1) && p.out16[0][3] == 0);
        for (int k = 90 * padded; k < 100 * padded; k++)
            assert_int_equal(p.out16[0][k], 0);
    }
}

/* Rows of `width` on both sides: k picks the fp32 numbers or those of 16 bits. */
struct side {
    enum kern_type type;
    const void *in[3];
    void *out;
    float *saved, *partial;
};

static struct side side_of(struct pair *p, int k)
{
    static float saved[2][2 * MOST], partial[2][4 * MOST];
    struct side s = {k ? p->type : KERN_F32,
                     {NULL},
                     k ? (void *)p->out16[0] : (void *)p->out[0],
                     saved[k],
                     partial[k]};

    for (int i = 0; i < 3; i++)
        s.in[i] = k ? (void *)p->in16[i] : (void *)p->in[i];
    return s;
}

static void check_ln(struct pair *p, int64_t rows, int width)
{
    const int chunks = kern_chunks(rows, width);
    struct side s[2] = {side_of(p, 0), side_of(p, 1)};

    for (int k = 0; k < 2; k++) {
        const struct kern_ln a = {s[k].in[0], p->channel[0], p->channel[1],
                                  s[k].out,   s[k].saved,    rows,
                                  width,      1e-5F,         1 / (float)width};
        launch("ln", s[k].type, &a);
    }
    same(p, 0, rows * width, "ln", width);
    assert_memory_equal(s[0].saved, s[1].saved, 2 * (size_t)rows * sizeof(float));
    for (int k = 0; k < 2; k++) {
        const struct kern_ln_sums sums = {s[k].in[1], s[k].in[0], s[k].saved, s[k].partial,
                                          rows,       width,      chunks};
        const struct kern_ln_bwd a = {s[k].in[1], s[k].in[0], p->channel[0], s[k].saved,
                                      s[k].out,   rows,       width};
        launch("ln_sums", s[k].type, &sums);
        launch("ln_bwd", s[k].type, &a);
    }
    same(p, 0, rows * width, "ln_bwd", width);
    assert_memory_equal(s[0].partial, s[1].partial, (size_t)(2 * chunks * width) * sizeof(float));
    for (int k = 0; k < 2; k++) {
        const struct kern_col_sums sums = {s[k].in[1], s[k].partial, rows, width, chunks};
        launch("col_sums", s[k].type, &sums);
    }
    assert_memory_equal(s[0].partial, s[1].partial, (size_t)(2 * chunks * width) * sizeof(float));
}

static void layer_norm_rounds_once(void **state)
{
    static const int widths[] = {1, 3, 8, 17, 64};
    static struct pair p;

    (void)state;
    for (int i = 0; i < 10; i++) {
        fill(&p, half_types[i / 5], (uint64_t)i);
        check_ln(&p, 1003 / widths[i % 5] + 3, widths[i % 5]);
    }
}

/* Forward every row; back so that two rows have places, of which one has more than a piece. */
static void check_embedding(struct pair *p, int width)
{
    enum { ROWS = 70, TABLE = 3 };
    static const struct kern_embed_piece piece[] = {{1, 0, 64, 0}, {1, 64, 66, 1}, {2, 66, 70, -1}},
                                         join = {1, 0, 2, -1};
    int32_t order[ROWS], token[ROWS];
    struct side s[2] = {side_of(p, 0), side_of(p, 1)};

    for (int i = 0; i < ROWS; i++) {
        order[i] = ROWS - 1 - i;
        token[i] = i % TABLE;
    }
    for (int k = 0; k < 2; k++) {
        float *dtable = s[k].saved;
        const struct kern_embed a = {p->in[4], token, s[k].out, ROWS, ROWS - 5, width, 1.5};
        struct kern_embed_bwd b = {s[k].in[0], order, piece, dtable, s[k].partial,
                                   3,          width, 1.5,   true};
        launch("embed", s[k].type, &a);
        memcpy(dtable, p->in[3], MOST * sizeof *dtable);
        launch("embed_bwd", s[k].type, &b);
        b.dy = b.partial;
        b.order = NULL;
        b.piece = &join;
        b.n = 1;
        launch("embed_bwd", KERN_F32, &b);
    }
    same(p, 0, (int64_t)ROWS * width, "embed", width);
    for (int i = (ROWS - 5) * width; i < ROWS * width; i++)
        assert_int_equal(p->out16[0][i], 0);
    assert_memory_equal(s[0].saved, s[1].saved, MOST * sizeof(float));
    assert_memory_equal(s[0].saved, p->in[3], (size_t)width * sizeof(float)); /* no place */
    assert_memory_equal(s[0].saved + 3 * width, p->in[3] + 3 * width, sizeof(float));
    double sum = 0;
    for (int i = 0; i < 66; i++)
        sum += (double)p->in[0][order[i] * width];
    assert_true(fabs((double)s[0].saved[width] - ((double)p->in[3][width] + 1.5 * sum)) < 1e-4);
}

static void check_positions(struct pair *p, int length, int width)
{
    enum { N = 3 };
    const int64_t each = (int64_t)length * width;
    struct side s[2] = {side_of(p, 0), side_of(p, 1)};

    for (int k = 0; k < 2; k++) {
        const struct kern_position a = {s[k].in[0], p->in[4], s[k].out, N * each, each};
        const struct kern_position_bwd b = {s[k].in[0], s[k].saved, N, each, each + width, false};
        launch("position", s[k].type, &a);
        s[k].saved[each] = 1;
        launch("position_bwd", s[k].type, &b);
    }
    same(p, 0, N * each, "position", width);
    assert_memory_equal(s[0].saved, s[1].saved, (size_t)(each + width) * sizeof(float));
    assert_true(s[0].saved[each] == 0);
    for (int k = 0; k < 2; k++) {
        const struct kern_sinusoid a = {s[k].in[0], s[k].out, N, length, width};
        launch("sinusoid", s[k].type, &a);
    }
    same(p, 0, N * each, "sinusoid", width);
    for (int k = 0; k < 2; k++) {
        const struct kern_first_bwd a = {p->in[4], s[k].out, N, length, width};
        launch("first_bwd", s[k].type, &a);
    }
    same(p, 0, N * each, "first_bwd", width);
}

static void embeddings_and_positions_round_once(void **state)
{
    static const int widths[] = {1, 3, 8, 17, 64};
    static struct pair p;

    (void)state;
    for (int i = 0; i < 10; i++) {
        fill(&p, half_types[i / 5], (uint64_t)i);
        check_embedding(&p, widths[i % 5]);
        fill(&p, half_types[i / 5], (uint64_t)i + 100);
        check_positions(&p, 13, widths[i % 5]);
    }
}

static void curves_round_once(void **state)
{
    static struct pair p;

    (void)state;
    for (int i = 0; i < 12; i++) {
        fill(&p, half_types[i / 6], (uint64_t)i);
        for (int k = 0; k < 2; k++) {
            const struct side s = side_of(&p, k);
            const struct kern_curve a = {(enum kern_curve_op)(i % 6), s.in[0], s.in[1], s.out,
                                         1003};
            launch("curve", s.type, &a);
        }
        same(&p, 0, 1003, "curve", i % 6);
    }
}

/* Element by element what rng.h says of its sample, in groups or not. */
static void dropout_draws_what_the_host_does(void **state)
{
    static const int lengths[] = {1, 5, 24, 103};
    const struct kern_draw_state draw = {bst_philox_key(9, BST_RNG_DROPOUT), UINT64_C(1) << 40};
    const uint64_t first = UINT64_C(77) << 40;
    static struct pair p;

    (void)state;
    for (int i = 0; i < 8; i++) {
        const int length = lengths[i % 4];
        fill(&p, half_types[i / 4], (uint64_t)i);
        for (int k = 0; k < 2; k++) {
            const struct side s = side_of(&p, k);
            const struct kern_dropout a = {s.in[0],           s.out,  &draw, 3, length, first,
                                           UINT32_C(1) << 30, 4.0 / 3};
            launch("dropout", s.type, &a);
        }
        same(&p, 0, 3 * (int64_t)length, "dropout", length);
        for (int n = 0; n < 3; n++) {
            for (int j = 0; j < length; j++) {
                uint32_t words[4];

                bst_rng_blocks(9, BST_RNG_DROPOUT, (UINT64_C(1) << 40) + (uint64_t)n,
                               first | (uint64_t)(j / 4), 1, words);
                const float x = p.in[0][n * length + j];
                const float want =
                    words[j % 4] < UINT32_C(1) << 30 ? 0 : (float)((double)x * (4.0 / 3));
                assert_true(p.out[0][n * length + j] == want);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pattern_is_its_value_and_comes_back),
        cmocka_unit_test(rounding_is_to_nearest_even),
        cmocka_unit_test(batch_norm_rounds_once),
        cmocka_unit_test(element_by_element_rounds_once),
        cmocka_unit_test(casts_round_once_and_come_back),
        cmocka_unit_test(casts_start_anywhere),
        cmocka_unit_test(pooling_rounds_once),
        cmocka_unit_test(mean_pooling_rounds_once),
        cmocka_unit_test(images_round_once_and_are_padded),
        cmocka_unit_test(layer_norm_rounds_once),
        cmocka_unit_test(embeddings_and_positions_round_once),
        cmocka_unit_test(curves_round_once),
        cmocka_unit_test(dropout_draws_what_the_host_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
