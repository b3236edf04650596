#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/rng.h"
#include "core/data/data.h"
#include "core/data/dataset.h"
#include "core/data/distort.h"

enum { H = 17, W = 13, N = H * W };

static void fill(uint8_t *p, int n, uint64_t seed)
{
    struct bst_rng r;
    bst_rng_init(&r, seed, BST_RNG_TEST, 0);
    for (int i = 0; i < n; i++)
        p[i] = (uint8_t)bst_rng_below(&r, 256);
}

static double grey(const double *p)
{
    return 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2];
}

/* ColorJitter step by step, in doubles. */
static void jitter_slowly(const uint8_t *src, double *out, const struct bst_distort_colour *how)
{
    double mean = 0;
    for (int i = 0; i < 3 * N; i++)
        out[i] = src[i] * how->brightness;
    for (int i = 0; i < N; i++)
        mean += grey(out + 3 * i) / N;
    for (int i = 0; i < 3 * N; i++)
        out[i] = how->contrast * out[i] + (1 - how->contrast) * mean;
    for (int i = 0; i < N; i++) {
        double g = grey(out + 3 * i);
        for (int k = 0; k < 3; k++)
            out[3 * i + k] = how->saturation * out[3 * i + k] + (1 - how->saturation) * g;
    }
}

static void colours_follow_the_definition(void **state)
{
    (void)state;
    static const struct bst_distort_colour hows[] = {
        {1, 1, 1},       {0.6, 1, 1}, {1, 1.4, 1}, {1, 1, 0.6},
        {1.4, 0.6, 1.4}, {0, 1, 1},   {1, 0, 1},   {1, 1, 0},
    };
    for (size_t h = 0; h < sizeof hows / sizeof hows[0]; h++) {
        uint8_t src[3 * N], got[3 * N];
        double want[3 * N];
        fill(src, 3 * N, h);
        memcpy(got, src, sizeof got);
        bst_distort_colour(got, N, 3, &hows[h]);
        jitter_slowly(src, want, &hows[h]);
        for (int i = 0; i < 3 * N; i++) {
            double v = want[i] < 0 ? 0 : want[i] > 255 ? 255 : want[i];
            if (got[i] < v - 0.5 - 1e-9 || got[i] > v + 0.5 + 1e-9)
                fail_msg("row %zu: %d became %d, not %g", h, src[i], got[i], v);
        }
    }
}

static void grey_images_keep_to_one_channel(void **state)
{
    (void)state;
    uint8_t p[4] = {0, 100, 100, 200};
    const struct bst_distort_colour how = {1, 0.5, 0.2};
    bst_distort_colour(p, 4, 1, &how);
    assert_int_equal(p[0], 50);
    assert_int_equal(p[1], 100);
    assert_int_equal(p[3], 150);
}

static void one_in_four_is_erased_within_bounds(void **state)
{
    (void)state;
    enum { KEYS = 8000, SIDE = 64 };
    int n = 0, edges[4] = {0};
    for (uint64_t key = 0; key < KEYS; key++) {
        struct bst_distort_rect r = bst_distort_erase_where(SIDE, SIDE, key);
        if (!r.w)
            continue;
        n++;
        assert_true(r.x >= 0 && r.y >= 0 && r.x + r.w <= SIDE && r.y + r.h <= SIDE);
        double area = (double)r.w * r.h / (SIDE * SIDE), ratio = (double)r.h / r.w;
        assert_true(area > 0.015 && area < 0.345);
        assert_true(ratio > 0.25 && ratio < 4);
        edges[0] += r.x == 0;
        edges[1] += r.y == 0;
        edges[2] += r.x + r.w == SIDE;
        edges[3] += r.y + r.h == SIDE;
    }
    assert_in_range(n, KEYS / 4 - 200, KEYS / 4 + 200); /* five deviations of 39 */
    for (int i = 0; i < 4; i++)
        assert_true(edges[i] > 0);
    /* A side of one pixel has no rectangle smaller than itself. */
    for (uint64_t key = 0; key < 100; key++)
        assert_int_equal(bst_distort_erase_where(1, 1, key).w, 0);
}

static void only_the_rectangle_is_erased(void **state)
{
    (void)state;
    uint64_t key = 0;
    while (!bst_distort_erase_where(H, W, key).w)
        key++;
    struct bst_distort_rect r = bst_distort_erase_where(H, W, key);
    uint8_t a[3 * N + 1], b[3 * N + 1];
    fill(a, 3 * N, 1);
    memcpy(b, a, sizeof b);
    a[3 * N] = b[3 * N] = 0xEE;
    /* Two images that differ inside the rectangle alone become the same there, and nowhere is a
     * difference made. Colours depend on the mean, so the difference keeps it. */
    uint8_t *at = &b[3 * (r.y * W + r.x)];
    uint8_t first = at[0];
    at[0] = at[3 * (r.w > 1 ? 1 : W)];
    at[3 * (r.w > 1 ? 1 : W)] = first;
    bst_distort(a, H, W, 3, key);
    bst_distort(b, H, W, 3, key);
    assert_memory_equal(a, b, sizeof a);
    assert_int_equal(a[3 * N], 0xEE);
    bst_distort(b, H, W, 3, key);
    int changed = 0;
    for (int i = 0; i < 3 * N; i++)
        changed += a[i] != b[i];
    assert_true(changed > 0); /* colours moved again */
}

static void training_is_distorted_and_evaluation_is_not(void **state)
{
    (void)state;
    struct bst_data_cfg cfg = {.format = "shapes",
                               .image_size = 16,
                               .classes = 4,
                               .channels = 3,
                               .train_count = 8,
                               .eval_count = 8,
                               .seed = 1};
    struct bst_dataset *plain, *strong;
    assert_int_equal(bst_dataset_open(&cfg, &plain), BST_OK);
    cfg.distort = true;
    assert_int_equal(bst_dataset_open(&cfg, &strong), BST_OK);
    uint8_t a[16 * 16 * 3], b[16 * 16 * 3], again[16 * 16 * 3];
    int32_t la, lb;
    for (int part = 0; part < 2; part++) {
        assert_int_equal(bst_dataset_get(plain, (enum bst_part)part, 3, 77, a, &la), BST_OK);
        assert_int_equal(bst_dataset_get(strong, (enum bst_part)part, 3, 77, b, &lb), BST_OK);
        assert_int_equal(bst_dataset_get(strong, (enum bst_part)part, 3, 77, again, &lb), BST_OK);
        assert_int_equal(la, lb);
        assert_memory_equal(b, again, sizeof b);
        assert_true((memcmp(a, b, sizeof a) != 0) == (part == BST_TRAIN));
    }
    bst_dataset_close(plain);
    bst_dataset_close(strong);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(colours_follow_the_definition),
        cmocka_unit_test(grey_images_keep_to_one_channel),
        cmocka_unit_test(one_in_four_is_erased_within_bounds),
        cmocka_unit_test(only_the_rectangle_is_erased),
        cmocka_unit_test(training_is_distorted_and_evaluation_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
