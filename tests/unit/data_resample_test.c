/* Resizing and the choice of crops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/rng.h"
#include "core/data/crop.h"
#include "core/data/resample.h"

enum { SLACK = 64 };

struct image {
    int w, h;
    size_t stride;
    uint8_t *data;
};

static struct image make_image(int w, int h, uint64_t seed)
{
    struct bst_rng r;
    struct image m = {w, h, (size_t)w * 3, NULL};
    m.data = calloc(m.stride * (size_t)h + SLACK, 1);
    bst_rng_init(&r, seed, BST_RNG_TEST, 0);
    for (size_t i = 0; i < m.stride * (size_t)h + SLACK; i++)
        m.data[i] = (uint8_t)bst_rng_u32(&r);
    return m;
}

static double weight(double distance)
{
    return distance < 0 ? (distance > -1 ? 1 + distance : 0) : distance < 1 ? 1 - distance : 0;
}

/* Along one axis, in floating point, straight from the definition: a tent as wide as the step. */
static double filter(const struct bst_resample_axis *a, int i, const uint8_t *at, size_t step)
{
    double scale = a->length / a->total, support = scale < 1 ? 1 : scale, sum = 0, total = 0;
    int target = a->first + (a->mirror ? a->n - 1 - i : i);
    double centre = a->origin + (target + 0.5) * scale;
    for (int k = a->low; k < a->high; k++) {
        double w = weight((k + 0.5 - centre) / support);
        sum += w * at[(size_t)(k - a->low) * step];
        total += w;
    }
    return sum / total;
}

/* Both ways, without rounding between; the library rounds once between, so it may be off by one. */
static double expected(const struct image *m, const struct bst_resample_axis *x,
                       const struct bst_resample_axis *y, int i, int j, int c)
{
    double scale = x->length / x->total, support = scale < 1 ? 1 : scale, sum = 0, total = 0;
    int target = x->first + (x->mirror ? x->n - 1 - i : i);
    double centre = x->origin + (target + 0.5) * scale;
    for (int k = x->low; k < x->high; k++) {
        double w = weight((k + 0.5 - centre) / support);
        if (w > 0)
            sum += w * filter(y, j, m->data + (size_t)y->low * m->stride + 3 * k + c, m->stride);
        total += w;
    }
    return sum / total;
}

static void resample(const struct bst_resample_loops *loops, const struct image *m,
                     const struct bst_resample_axis *x, const struct bst_resample_axis *y,
                     uint8_t *out)
{
    struct bst_resampler r = {.loops = loops};
    const uint8_t *first = m->data + (size_t)y->low * m->stride + 3 * (size_t)x->low;
    assert_int_equal(bst_resample(&r, first, m->stride, x, y, out), BST_OK);
    bst_resampler_fini(&r);
}

static const struct {
    int w, h;
    struct bst_resample_axis x, y;
} cases[] = {
    {1, 1, {0, 1, 0, 1, 1, 0, 1, false}, {0, 1, 0, 1, 1, 0, 1, false}},
    {1, 1, {0, 1, 0, 1, 17, 0, 17, false}, {0, 1, 0, 1, 3, 0, 3, false}},
    {5, 3, {0, 5, 0, 5, 5, 0, 5, false}, {0, 3, 0, 3, 3, 0, 3, false}},
    {40, 30, {0, 40, 0, 40, 17, 0, 17, false}, {0, 30, 0, 30, 23, 0, 23, true}},
    {40, 30, {0, 40, 0, 40, 17, 0, 17, true}, {0, 30, 0, 30, 61, 0, 61, false}},
    {40, 30, {3, 21, 3, 24, 32, 0, 32, true}, {7, 20, 7, 27, 32, 0, 32, false}},
    {33, 50, {1.5, 20.25, 1, 22, 16, 0, 16, false}, {0.75, 40.5, 0, 42, 16, 0, 16, false}},
    {97, 61, {0, 97, 0, 97, 40, 11, 17, false}, {0, 61, 0, 61, 25, 4, 17, true}},
    {300, 9, {0, 300, 0, 300, 3, 0, 3, false}, {0, 9, 0, 9, 1, 0, 1, false}},
};
enum { CASES = (int)(sizeof cases / sizeof cases[0]) };

static void equals_the_definition(void **state)
{
    (void)state;
    for (int k = 0; k < CASES; k++) {
        const struct bst_resample_axis *x = &cases[k].x, *y = &cases[k].y;
        struct image m = make_image(cases[k].w, cases[k].h, (uint64_t)k);
        uint8_t *out = malloc((size_t)(x->n * y->n * 3));
        double off = 0;
        resample(&bst_resample_portable, &m, x, y, out);
        for (int j = 0; j < y->n; j++)
            for (int i = 0; i < x->n; i++)
                for (int c = 0; c < 3; c++) {
                    double d = out[(j * x->n + i) * 3 + c] - expected(&m, x, y, i, j, c);
                    if (fabs(d) > 1.03)
                        fail_msg("case %d, pixel (%d, %d): off by %f", k, i, j, d);
                    off += d;
                }
        /* Rounding is to the nearest, not down. */
        if (x->n * y->n > 100)
            assert_true(fabs(off / (x->n * y->n * 3)) < 0.1);
        free(out);
        free(m.data);
    }
}

static void every_loop_gives_the_same_bits(void **state)
{
    (void)state;
    for (int k = 0; k < CASES; k++) {
        const struct bst_resample_axis *x = &cases[k].x, *y = &cases[k].y;
        struct image m = make_image(cases[k].w, cases[k].h, (uint64_t)k);
        size_t n = (size_t)(x->n * y->n * 3);
        uint8_t *a = malloc(n), *b = malloc(n + 1);
        b[n] = 0xA5;
        resample(&bst_resample_portable, &m, x, y, a);
        resample(bst_resample_fastest(), &m, x, y, b);
        assert_memory_equal(a, b, n);
        assert_int_equal(b[n], 0xA5);
        free(a);
        free(b);
        free(m.data);
    }
}

static void an_even_area_stays_as_it_is(void **state)
{
    (void)state;
    for (int level = 0; level < 256; level += 51) {
        struct image m = make_image(90, 70, 1);
        uint8_t out[31 * 37 * 3];
        memset(m.data, level, m.stride * (size_t)m.h);
        struct bst_resample_axis x = {0, 90, 0, 90, 31, 0, 31, false};
        struct bst_resample_axis y = {0, 70, 0, 70, 37, 0, 37, false};
        resample(NULL, &m, &x, &y, out);
        for (size_t i = 0; i < sizeof out; i++)
            assert_int_equal(out[i], level);
        free(m.data);
    }
}

/* torchvision: Resize(256) and CenterCrop(224) of 500 × 375 give 341 × 256, from (58, 16). */
static void centre_is_torchvisions(void **state)
{
    (void)state;
    static const struct {
        int w, h, size, total_x, total_y, first_x, first_y;
    } known[] = {
        {500, 375, 224, 341, 256, 58, 16}, {375, 500, 224, 256, 341, 16, 58},
        {224, 224, 224, 256, 256, 16, 16}, {1, 1, 224, 256, 256, 16, 16},
        {333, 500, 176, 201, 301, 12, 62}, {65500, 1, 8, 589500, 9, 294746, 0},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        struct bst_crop c;
        bst_crop_centre(&c, known[i].w, known[i].h, known[i].size);
        assert_int_equal(c.x.total, known[i].total_x);
        assert_int_equal(c.y.total, known[i].total_y);
        assert_int_equal(c.x.first, known[i].first_x);
        assert_int_equal(c.y.first, known[i].first_y);
        assert_true(c.part.x >= 0 && c.part.w > 0 && c.part.x + c.part.w <= known[i].w);
        assert_true(c.part.y >= 0 && c.part.h > 0 && c.part.y + c.part.h <= known[i].h);
    }
}

/* Mean area of what fits, mirrored half the time, place free: over 20,000 crops. */
static void random_crops_are_torchvisions(void **state)
{
    (void)state;
    enum { N = 20000, W = 500, H = 375 };
    double area = 0, left = 0, log_ratio = 0;
    int mirrored = 0;
    for (uint64_t key = 0; key < N; key++) {
        struct bst_crop c, again;
        bst_crop_random(&c, W, H, 224, key);
        bst_crop_random(&again, W, H, 224, key);
        assert_memory_equal(&c.part, &again.part, sizeof c.part);
        assert_int_equal(c.mirror, again.mirror);
        assert_true(c.part.x >= 0 && c.part.w > 0 && c.part.x + c.part.w <= W);
        assert_true(c.part.y >= 0 && c.part.h > 0 && c.part.y + c.part.h <= H);
        double share = (double)c.part.w * c.part.h / (W * H);
        double ratio = (double)c.part.w / c.part.h;
        assert_true(share > 0.078 && share <= 1 && ratio > 0.74 && ratio < 1.35);
        area += share / N;
        log_ratio += log(ratio) / N;
        if (W > c.part.w)
            left += (double)c.part.x / (W - c.part.w) / N;
        mirrored += c.mirror;
    }
    /* torchvision's own means, of 60,000 crops: RandomResizedCrop.get_params on 500 × 375. */
    assert_true(fabs(area - 0.4341) < 0.006);
    assert_true(fabs(log_ratio - 0.0313) < 0.006);
    assert_true(fabs(left - 0.5) < 0.01);
    assert_in_range(mirrored, N / 2 - 300, N / 2 + 300);
}

static void what_does_not_fit_is_cut_in_the_middle(void **state)
{
    (void)state;
    struct bst_crop c;
    for (uint64_t key = 0; key < 20; key++) {
        bst_crop_random(&c, 1000, 3, 224, key);
        if (c.part.h == 3) {
            assert_int_equal(c.part.w, 4);
            assert_int_equal(c.part.x, 498);
        }
        bst_crop_random(&c, 1, 1, 224, key);
        assert_int_equal(c.part.w * c.part.h, 1);
    }
}

static void coarse_decoding_leaves_enough_pixels(void **state)
{
    (void)state;
    static const struct {
        int length, denominator;
    } known[] = {{100, 1}, {447, 1}, {448, 2}, {895, 2}, {896, 4}, {1791, 4}, {1792, 8}, {9000, 8}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        struct bst_crop c = {.size = 224, .least_scale = 1};
        c.x = c.y = (struct bst_crop_span){.length = known[i].length, .total = 224};
        assert_int_equal(bst_crop_denominator(&c), known[i].denominator);
        c.x.length = 100;
        assert_int_equal(bst_crop_denominator(&c), 1);
    }
    struct bst_crop eval;
    bst_crop_centre(&eval, 1000, 1023, 224);
    assert_int_equal(bst_crop_denominator(&eval), 1);
    bst_crop_centre(&eval, 1024, 1024, 224);
    assert_int_equal(bst_crop_denominator(&eval), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_definition),
        cmocka_unit_test(every_loop_gives_the_same_bits),
        cmocka_unit_test(an_even_area_stays_as_it_is),
        cmocka_unit_test(centre_is_torchvisions),
        cmocka_unit_test(random_crops_are_torchvisions),
        cmocka_unit_test(what_does_not_fit_is_cut_in_the_middle),
        cmocka_unit_test(coarse_decoding_leaves_enough_pixels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
