#include "tui/chart.h"
#include "tui/raster.h"

#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tui/format.h"

static uint32_t seed = 11;

static double unit(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (double)(seed >> 8) / (double)(1 << 24);
}

static void braille_patterns(void **state)
{
    (void)state;
    /* Bit row × 2 + column against the code chart's dots 1, 4; 2, 5; 3, 6; 7, 8. */
    assert_int_equal(tui_raster_char(TUI_DOTS_BRAILLE, 0x01), 0x2801);
    assert_int_equal(tui_raster_char(TUI_DOTS_BRAILLE, 0x02), 0x2808);
    assert_int_equal(tui_raster_char(TUI_DOTS_BRAILLE, 0x10), 0x2804);
    assert_int_equal(tui_raster_char(TUI_DOTS_BRAILLE, 0x40), 0x2840);
    assert_int_equal(tui_raster_char(TUI_DOTS_BRAILLE, 0x80), 0x2880);
    assert_int_equal(tui_raster_char(TUI_DOTS_BRAILLE, 0xFF), 0x28FF);
    assert_int_equal(tui_raster_char(TUI_DOTS_BLOCK, 3), 0x2588);
    for (unsigned p = 0; p < 4; p++)
        assert_true(tui_raster_char(TUI_DOTS_ASCII, p) < 127);
}

static int dots_in_column(const struct tui_raster *r, int x)
{
    int n = 0;
    for (int y = 0; y < r->h * r->dots_y; y++) {
        int cell = y / r->dots_y * r->w + x / r->dots_x;
        n += r->dots[cell] >> (y % r->dots_y * r->dots_x + x % r->dots_x) & 1;
    }
    return n;
}

static void a_line_has_no_holes(void **state)
{
    (void)state;
    for (int k = 0; k < 300; k++) {
        struct tui_raster r;
        int w = 1 + (int)(unit() * 60), h = 1 + (int)(unit() * 20);
        tui_raster_init(&r, (enum tui_chart_symbols)(k % 3), w, h);
        struct tui_pen pen = {.every = 1};
        for (int i = 0; i <= 7; i++)
            tui_raster_line(&r, &pen, i / 7.0, unit());
        for (int x = 0; x < w * r.dots_x; x++)
            assert_true(dots_in_column(&r, x) > 0);
        tui_raster_fini(&r);
    }
}

static void a_column_shows_its_extremes(void **state)
{
    (void)state;
    struct tui_raster r;
    struct tui_pen pen = {.every = 1};
    tui_raster_init(&r, TUI_DOTS_BRAILLE, 10, 5);
    /* A thousand points, one spike among them. */
    for (int i = 0; i < 1000; i++)
        tui_raster_line(&r, &pen, i / 999.0, i == 437 ? 1.0 : 0.0);
    int tallest = 0;
    for (int x = 0; x < 20; x++)
        tallest = dots_in_column(&r, x) > tallest ? dots_in_column(&r, x) : tallest;
    assert_int_equal(tallest, 20);
    tui_raster_fini(&r);
}

static void a_gap_stays_a_gap(void **state)
{
    (void)state;
    struct tui_raster r;
    struct tui_pen pen = {.every = 1};
    tui_raster_init(&r, TUI_DOTS_BRAILLE, 10, 3);
    tui_raster_line(&r, &pen, 0, 0.5);
    tui_raster_line(&r, &pen, 0.2, 0.5);
    tui_raster_line(&r, &pen, 0.5, NAN);
    tui_raster_line(&r, &pen, 0.8, 0.5);
    tui_raster_line(&r, &pen, 1, 0.5);
    for (int x = 6; x < 14; x++)
        assert_int_equal(dots_in_column(&r, x), 0);
    assert_int_equal(dots_in_column(&r, 0), 1);
    assert_int_equal(dots_in_column(&r, 19), 1);
    tui_raster_fini(&r);
}

static void any_numbers_any_axis(void **state)
{
    (void)state;
    static const double odd[] = {0,      -0.0,  1,      -1,    NAN, INFINITY, -INFINITY,
                                 5e-324, 1e308, -1e308, 1e-12, 2.3, 60000,    1e15};
    enum { N = sizeof odd / sizeof odd[0] };
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            for (int log = 0; log < 2; log++)
                for (int u = 0; u < 3; u++) {
                    struct tui_axis a;
                    tui_axis_make(&a, odd[i], odd[j], log, (enum tui_axis_unit)u, 1 + (i + j) % 9);
                    assert_true(isfinite(a.lo) && isfinite(a.hi) && a.lo < a.hi);
                    assert_true(!a.log || a.lo > 0);
                    for (int k = 0; k < a.n; k++) {
                        double at = tui_axis_at(&a, a.tick[k]);
                        if (!(at > -1e-6 && at < 1 + 1e-6))
                            fail_msg("%g to %g: tick %g is outside", odd[i], odd[j], a.tick[k]);
                        assert_true(k == 0 || a.tick[k] > a.tick[k - 1]);
                        assert_true(strlen(a.label[k]) > 0);
                    }
                }
}

static void ticks_are_round(void **state)
{
    (void)state;
    struct tui_axis a;
    tui_axis_make(&a, 0, 2.3, false, TUI_AXIS_NUMBER, 5);
    assert_int_equal(a.n, 5);
    assert_string_equal(a.label[1], "0.5");
    assert_string_equal(a.label[4], "2.0");
    tui_axis_make(&a, 0.01, 100, true, TUI_AXIS_NUMBER, 5);
    assert_int_equal(a.n, 5);
    assert_string_equal(a.label[0], "0.01");
    assert_string_equal(a.label[4], "100");
    tui_axis_make(&a, 0, 7200, false, TUI_AXIS_TIME, 5);
    assert_string_equal(a.label[1], "30m00s");
    tui_axis_make(&a, 0, 120000, false, TUI_AXIS_COUNT, 4);
    assert_string_equal(a.label[1], "50.0k");
}

struct points {
    const double *y;
};

static void at(void *arg, int i, double *x, double *y)
{
    *x = i;
    *y = ((struct points *)arg)->y[i];
}

static void any_size_draws(void **state)
{
    (void)state;
    double y[200];
    for (int i = 0; i < 200; i++)
        y[i] = i % 17 == 0 ? NAN : i % 23 == 0 ? INFINITY : pow(10, 8 * unit() - 4) - 0.5;
    struct points p = {y};
    for (int k = 0; k < 2000; k++) {
        struct tui_frame f;
        int w = 1 + (int)(unit() * 310), h = 1 + (int)(unit() * 60);
        tui_frame_init(&f, w, h);
        f.symbols = (enum tui_chart_symbols)(k % 3);
        f.ascii = f.symbols == TUI_DOTS_ASCII;
        struct tui_chart c = {.x1 = k % 5 ? 199 : 0,
                              .ahead = k % 4 == 0,
                              .x2 = 300 * unit(),
                              .log = k % 2,
                              .empty = "nothing",
                              .from_zero = k % 3 == 0,
                              .x_name = "epoch"};
        c.n_series = 1;
        c.series[0] = (struct tui_series){
            at, &p, k % 7 ? 200 : 0, TUI_TRAIN, 1 + k % 3, k % 4 ? 0 : L'o', true};
        tui_chart_draw(&c, tui_area_all(&f));
        for (int i = 0; f.ascii && i < w * h; i++)
            assert_true(f.cells[i].ch >= 32 && f.cells[i].ch < 127);
        tui_frame_fini(&f);
    }
}

static void ends(void *arg, int i, double *x, double *y)
{
    const double *end = arg;
    *x = end[i];
    *y = 1 + i;
}

/* Whatever part of the run a narrow pane shows, in whatever it counts. */
static void the_axis_below_always_says_where(void **state)
{
    (void)state;
    static const char *const names[] = {"epoch", "update", ""};
    for (int w = 28; w <= 80; w += 4)
        for (int u = 0; u < 3; u++)
            for (double from = 0; from < 1e5; from = from * 7 + 3)
                for (double span = 1.5; span < 1e6; span *= 1.7) {
                    struct tui_frame f;
                    double end[] = {from, from + span};
                    bool digit = false;
                    tui_frame_init(&f, w, 6);
                    struct tui_chart c = {.x0 = end[0],
                                          .x1 = end[1],
                                          .x_unit = (enum tui_axis_unit)u,
                                          .x_name = names[u],
                                          .n_series = 1};
                    c.series[0] = (struct tui_series){ends, end, 2, TUI_TRAIN, 1, 0, true};
                    tui_chart_draw(&c, tui_area_all(&f));
                    for (int x = 0; x < w; x++)
                        digit =
                            digit || (f.cells[5 * w + x].ch >= '0' && f.cells[5 * w + x].ch <= '9');
                    if (!digit)
                        fail_msg("width %d unit %d: %g to %g", w, u, end[0], end[1]);
                    tui_frame_fini(&f);
                }
}

/* What lies ahead of the window has the last two fifths, however long it is, behind a double line;
 * a window that is most of it anyway keeps its scale. Each round value has its label. */
static void what_lies_ahead_has_its_part(void **state)
{
    static const struct {
        double x1, x2; /* x2 of 0: nothing is ahead */
        int line;      /* the column of the double line; 0: there is none */
        const char *label[2];
    } cases[] = {
        {0.0433, 0, 0, {"0.01", "0.02"}},
        {10, 1000, 36, {"5", "500"}},
        {10, 12.5, 46, {"5", "12"}},
        {10, 10.1, 0, {"5", "10"}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double end[] = {0, cases[i].x1};
        struct tui_frame f;
        struct bst_sb text;
        struct tui_chart c = {
            .x1 = cases[i].x1, .ahead = cases[i].x2 > 0, .x2 = cases[i].x2, .n_series = 1};
        tui_frame_init(&f, 58, 8);
        c.series[0] = (struct tui_series){ends, end, 2, TUI_TRAIN, 1, 0, true};
        assert_true(tui_chart_breaks(&c) == (cases[i].line > 0));
        tui_chart_draw(&c, tui_area_all(&f));
        int line = 0;
        for (int x = 0; x < f.w; x++)
            if (f.cells[f.w + x].ch == L'║')
                line = x;
        if (line < cases[i].line - 1 || line > cases[i].line + 1)
            fail_msg("%g to %g: the line is at %d, not %d", end[1], c.x2, line, cases[i].line);
        bst_sb_init(&text, 10000);
        tui_frame_text(&f, &text);
        for (int k = 0; k < 2; k++)
            if (!strstr(text.data, cases[i].label[k]))
                fail_msg("no label %s:\n%s", cases[i].label[k], text.data);
        bst_sb_fini(&text);
        tui_frame_fini(&f);
    }
}

static void a_missing_value_is_seen(void **state)
{
    (void)state;
    const double y[] = {1, 2, NAN, 2, 1};
    struct points p = {y};
    struct tui_frame f;
    struct bst_sb text;
    tui_frame_init(&f, 40, 8);
    struct tui_chart c = {.x1 = 4, .n_series = 1};
    c.series[0] = (struct tui_series){at, &p, 5, TUI_TRAIN, 1, 0, true};
    tui_chart_draw(&c, tui_area_all(&f));
    bst_sb_init(&text, 10000);
    tui_frame_text(&f, &text);
    assert_non_null(strchr(text.data, '!'));
    bst_sb_fini(&text);
    tui_frame_fini(&f);
}

static void numbers_read_well(void **state)
{
    (void)state;
    static const struct {
        double v;
        int digits;
        const char *text;
    } table[] = {
        {0.41234, 4, "0.4123"},  {0, 3, "0"},
        {12.345, 3, "12.3"},     {1234.5, 3, "1234"},
        {0.0001, 3, "0.000100"}, {0.000012, 2, "1.2e-05"},
        {NAN, 3, "nan"},         {-INFINITY, 3, "-inf"},
        {999999, 3, "999999"},   {1e6, 3, "1.0e+06"},
    };
    char out[TUI_NUM], two[2 * TUI_NUM];
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        tui_num(table[i].v, table[i].digits, out);
        assert_string_equal(out, table[i].text);
    }
    tui_percent((struct bst_metric){0.971, true}, out);
    assert_string_equal(out, "97 %");
    tui_percent((struct bst_metric){0.971, false}, out);
    assert_string_equal(out, "n/a");
    tui_metric((struct bst_metric){0, false}, 3, out);
    assert_string_equal(out, "n/a");
    tui_count(1234, out);
    assert_string_equal(out, "1234");
    tui_count(12345678, out);
    assert_string_equal(out, "12.3M");
    tui_of_bytes((struct bst_metric){1.25 * (1 << 30), true},
                 (struct bst_metric){8.0 * (1 << 30), true}, two);
    assert_string_equal(two, "1.25/8 GiB");
    tui_of_bytes((struct bst_metric){0, false}, (struct bst_metric){0, false}, two);
    assert_string_equal(two, "n/a");
}

static int set_locale(void **state)
{
    (void)state;
    return setlocale(LC_CTYPE, "C.UTF-8") ? 0 : -1;
}

/* Only what keeps somebody waiting, and no guess where nothing is known. */
static void a_long_update_is_told(void **state)
{
    (void)state;
    static const struct {
        double age, rate;
        int64_t batch;
        enum bst_phase phase;
        const char *text;
    } cases[] = {
        {12, 100, 4000, BST_PHASE_TRAINING, "the update in flight takes about 40s, 12s of it over"},
        {0.1, 100, 4000, BST_PHASE_TRAINING, "the update in flight takes about 40s, 0s of it over"},
        {39, 100, 4000, BST_PHASE_TRAINING, NULL},   /* soon over */
        {0.1, 4000, 4000, BST_PHASE_TRAINING, NULL}, /* short */
        {90, 100, 4000, BST_PHASE_TRAINING, "the update in flight has taken 1m30s so far"},
        {5, NAN, 4000, BST_PHASE_TRAINING, "the update in flight has taken 5s so far"},
        {1, NAN, 4000, BST_PHASE_TRAINING, NULL},
        {5, 100, 4000, BST_PHASE_EVALUATING, "the evaluation that is on has taken 5s so far"},
        {12, 100, 4000, BST_PHASE_PAUSED, NULL},
        {NAN, 100, 4000, BST_PHASE_TRAINING, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bst_status s = {.phase = cases[i].phase,
                               .global_batch = cases[i].batch,
                               .samples_per_sec = bst_metric_of(cases[i].rate),
                               .update_age = bst_metric_of(cases[i].age)};
        char text[120] = "";
        bool said = tui_in_flight(&s, text, sizeof text);
        if (said != (cases[i].text != NULL) || (said && strcmp(text, cases[i].text)))
            fail_msg("case %zu: '%s'", i, text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(braille_patterns),
        cmocka_unit_test(a_line_has_no_holes),
        cmocka_unit_test(a_column_shows_its_extremes),
        cmocka_unit_test(a_gap_stays_a_gap),
        cmocka_unit_test(any_numbers_any_axis),
        cmocka_unit_test(ticks_are_round),
        cmocka_unit_test(any_size_draws),
        cmocka_unit_test(the_axis_below_always_says_where),
        cmocka_unit_test(what_lies_ahead_has_its_part),
        cmocka_unit_test(a_missing_value_is_seen),
        cmocka_unit_test(numbers_read_well),
        cmocka_unit_test(a_long_update_is_told),
    };
    return cmocka_run_group_tests(tests, set_locale, NULL);
}
