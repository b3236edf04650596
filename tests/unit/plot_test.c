#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cairo.h>
#include <cmocka.h>

#include "core/report/plot.h"
#include "core/report/plot_axis.h"

static char dir[] = "/tmp/bstune-plot-XXXXXX";

static const char *in_dir(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return rmdir(dir);
}

static void check_labels(const struct bst_plot_scale *s, const char *want)
{
    char got[256] = "";
    for (int i = 0; i < s->n; i++) {
        double at = bst_plot_scale_at(s, s->tick[i]);
        assert_true(at > -1e-9 && at < 1 + 1e-9);
        if (!s->label[i][0])
            continue;
        size_t len = strlen(got);
        snprintf(got + len, sizeof got - len, "%s%s", len ? " " : "", s->label[i]);
    }
    assert_string_equal(got, want);
}

static void test_linear_ticks(void **state)
{
    struct bst_plot_scale s;
    (void)state;
    bst_plot_scale_make(&s, 0.03, 0.97, false, false, 6);
    check_labels(&s, "0 0.2 0.4 0.6 0.8 1");
    assert_true(s.low == 0 && s.high == 1);
    bst_plot_scale_make(&s, 0.03, 0.97, false, true, 6);
    check_labels(&s, "0.2 0.4 0.6 0.8");
    bst_plot_scale_make(&s, -3, 3, false, false, 4);
    check_labels(&s, "-4 -2 0 2 4");
    bst_plot_scale_make(&s, 7, 7, false, false, 4); /* one value */
    assert_true(s.low < 7 && s.high > 7 && s.n >= 2);
    bst_plot_scale_make(&s, NAN, NAN, false, false, 4); /* none */
    assert_true(s.low == 0 && s.high == 1 && s.n >= 2);
    bst_plot_scale_make(&s, 0, 2e6, false, false, 4);
    check_labels(&s, "0 500k 1000k 1500k 2000k");
}

static void test_log_ticks(void **state)
{
    struct bst_plot_scale s;
    (void)state;
    bst_plot_scale_make(&s, 1e-7, 10, true, false, 9);
    check_labels(&s, "1e-07 1e-06 1e-05 0.0001 0.001 0.01 0.1 1 10");
    bst_plot_scale_make(&s, 30, 1100, true, false, 8);
    check_labels(&s, "50 100 200 500 1000");
    assert_true(bst_plot_scale_at(&s, 30) == 0 && fabs(bst_plot_scale_at(&s, 1100) - 1) < 1e-12);
    assert_true(isnan(bst_plot_scale_at(&s, 0)) && isnan(bst_plot_scale_at(&s, -1)));
    bst_plot_scale_make(&s, 1e-300, 1e300, true, false, 5);
    assert_in_range(s.n, 2, BST_PLOT_TICKS);
}

static double luminance(const double rgb[3])
{
    double sum = 0;
    static const double share[] = {0.2126, 0.7152, 0.0722};
    for (int i = 0; i < 3; i++)
        sum += share[i] * (rgb[i] <= 0.03928 ? rgb[i] / 12.92 : pow((rgb[i] + 0.055) / 1.055, 2.4));
    return sum;
}

/* WCAG 2.1: 3 : 1 for graphics, 4.5 : 1 for text, whatever the page behind. */
static void test_colours_on_white_and_black(void **state)
{
    (void)state;
    for (int c = 0; c < BST_PLOT_COLOURS; c++) {
        double rgb[3], least = c == BST_PLOT_GREY ? 4.5 : 3;
        bst_plot_rgb((enum bst_plot_colour)c, rgb);
        double l = luminance(rgb);
        assert_true(1.05 / (l + 0.05) >= least);
        assert_true((l + 0.05) / 0.05 >= least);
    }
    for (int i = 0; i < 3 * BST_PLOT_COLOURS; i++)
        assert_true(bst_plot_colour_at(i) < BST_PLOT_GREY);
    assert_true(bst_plot_colour_at(0) != bst_plot_colour_at(1));
}

/* Every kind of item once; y has a gap in its middle third. */
static struct bst_plot *make_plot(bool legend)
{
    enum { N = 90 };
    double x[N], y[N], low[N], high[N];
    struct bst_plot_cfg cfg = {
        .title = legend ? "Loss over the rate" : NULL,
        .x = {.label = "rate", .log = true},
        .y = {.label = "loss", .low = 0, .high = 4},
        .width = 400,
        .height = 300,
    };
    struct bst_plot *p = bst_plot_new(&cfg);
    for (int i = 0; i < N; i++) {
        x[i] = pow(10, -7 + 8.0 * i / (N - 1));
        y[i] = i >= N / 3 && i < 2 * N / 3 ? NAN : 2;
        low[i] = 1;
        high[i] = 1.4;
    }
    bst_plot_line(p, legend ? "smoothed" : NULL, BST_PLOT_BLUE, x, y, N);
    bst_plot_band(p, legend ? "spread" : NULL, BST_PLOT_GREEN, x, low, high, N);
    bst_plot_points(p, legend ? "seen" : NULL, BST_PLOT_ORANGE, x, high, N);
    bst_plot_dashes(p, NULL, BST_PLOT_PURPLE, x, low, N);
    bst_plot_upright(p, "steepest", BST_PLOT_RED, 1e-3);
    bst_plot_level(p, "start", BST_PLOT_TEAL, 3);
    bst_plot_words(p, BST_PLOT_BROWN, 1, 3.5, "here");
    return p;
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (const char *at = strstr(text, what); at; at = strstr(at + 1, what))
        n++;
    return n;
}

static void test_svg(void **state)
{
    struct bst_sb sb;
    struct bst_plot *p = make_plot(true);
    (void)state;
    bst_sb_init(&sb, 4 << 20);
    assert_int_equal(bst_plot_svg(p, &sb), BST_OK);
    assert_non_null(strstr(sb.data, "<svg"));
    assert_non_null(strstr(sb.data, "</svg>"));
    assert_non_null(strstr(sb.data, "width=\"400"));
    assert_in_range(count(sb.data, "<path"), 40, 4000);
    /* No background, so that a dark page shows through. */
    assert_null(strstr(sb.data, "rgb(100%,100%,100%)"));
    assert_null(strstr(sb.data, "rgb(100%, 100%, 100%)"));
    bst_sb_fini(&sb);
    /* A cap that is too small is an error, not half a picture. */
    bst_sb_init(&sb, 100);
    assert_int_not_equal(bst_plot_svg(p, &sb), BST_OK);
    bst_sb_fini(&sb);
    bst_plot_free(p);
}

static bool near(const unsigned char *pixel, enum bst_plot_colour c)
{
    double rgb[3];
    bst_plot_rgb(c, rgb);
    /* Little-endian RGB24: blue first. */
    for (int i = 0; i < 3; i++)
        if (fabs(pixel[2 - i] / 255.0 - rgb[i]) > 0.02)
            return false;
    return true;
}

static void test_png(void **state)
{
    struct bst_plot *p = make_plot(false);
    const char *path = in_dir("a.png");
    (void)state;
    assert_int_equal(bst_plot_write(p, path), BST_OK);
    bst_plot_free(p);
    cairo_surface_t *s = cairo_image_surface_create_from_png(path);
    assert_int_equal(cairo_surface_status(s), CAIRO_STATUS_SUCCESS);
    int w = cairo_image_surface_get_width(s), h = cairo_image_surface_get_height(s);
    assert_int_equal(w, 800);
    assert_int_equal(h, 600);
    int seen[BST_PLOT_COLOURS] = {0}, blue_in[3] = {0}, blue_least = w, blue_most = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++) {
                const unsigned char *at =
                    cairo_image_surface_get_data(s) + y * cairo_image_surface_get_stride(s) + 4 * x;
                bool blue = near(at, BST_PLOT_BLUE);
                if (pass && blue)
                    blue_in[3 * (x - blue_least) / (blue_most - blue_least + 1)]++;
                if (pass)
                    continue;
                for (int c = 0; c < BST_PLOT_COLOURS; c++)
                    seen[c] += near(at, (enum bst_plot_colour)c);
                blue_least = blue && x < blue_least ? x : blue_least;
                blue_most = blue && x > blue_most ? x : blue_most;
            }
    for (int c = 0; c < BST_PLOT_COLOURS; c++)
        if (c != BST_PLOT_GREEN) /* pale */
            assert_true(seen[c] > 20);
    /* The gap. */
    assert_true(blue_in[0] > 100 && blue_in[2] > 100);
    assert_true(blue_in[1] < 30);
    cairo_surface_destroy(s);
    unlink(path);
}

static void test_odd_data(void **state)
{
    struct bst_sb sb;
    static const double none[] = {NAN, INFINITY, -INFINITY}, zero[] = {0, 0, 0},
                        huge[] = {-DBL_MAX, 0, DBL_MAX}, one[] = {5};
    (void)state;
    for (int log = 0; log < 2; log++)
        for (int kind = 0; kind < 4; kind++) {
            struct bst_plot_cfg cfg = {.x = {.log = log}, .y = {.log = log}};
            struct bst_plot *p = bst_plot_new(&cfg);
            const double *v = kind == 0 ? none : kind == 1 ? zero : kind == 2 ? huge : one;
            int n = kind == 3 ? 1 : 3;
            bst_plot_line(p, "", BST_PLOT_BLUE, v, v, n);
            bst_plot_points(p, NULL, BST_PLOT_RED, v, v, n);
            bst_plot_band(p, "b", BST_PLOT_GREEN, v, v, v, n);
            bst_plot_line(p, "empty", BST_PLOT_RED, NULL, NULL, 0);
            bst_plot_upright(p, NULL, BST_PLOT_RED, NAN);
            bst_plot_level(p, "far off", BST_PLOT_RED, 1e300);
            bst_sb_init(&sb, 4 << 20);
            assert_int_equal(bst_plot_svg(p, &sb), BST_OK);
            assert_null(strstr(sb.data, "nan"));
            bst_sb_fini(&sb);
            bst_plot_free(p);
        }
}

static void test_files(void **state)
{
    struct bst_plot *p = make_plot(true);
    (void)state;
    assert_int_equal(bst_plot_write(p, in_dir("a.gif")), BST_E_ARG);
    assert_int_equal(bst_plot_write(p, in_dir("svg")), BST_E_ARG);
    assert_int_equal(bst_plot_write(p, in_dir("missing/a.svg")), BST_E_IO);
    assert_int_equal(bst_plot_write(p, in_dir("a.svg")), BST_OK);
    assert_int_equal(unlink(in_dir("a.svg")), 0);
    bst_plot_free(p);
    bst_plot_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear_ticks),
        cmocka_unit_test(test_log_ticks),
        cmocka_unit_test(test_colours_on_white_and_black),
        cmocka_unit_test(test_svg),
        cmocka_unit_test(test_png),
        cmocka_unit_test(test_odd_data),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
