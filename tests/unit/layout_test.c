#include "tui/layout.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static uint32_t seed = 7;

static int below(int n)
{
    seed = seed * 1664525u + 1013904223u;
    return (int)((seed >> 8) % (uint32_t)n);
}

static bool overlap(const struct tui_rect *a, const struct tui_rect *b)
{
    return a->w > 0 && b->w > 0 && a->x < b->x + b->w && b->x < a->x + a->w && a->y < b->y + b->h &&
           b->y < a->y + a->h;
}

static void check(const struct tui_layout_in *in)
{
    struct tui_layout l;
    long area = 0;
    tui_layout_make(in, &l);
    if (l.size == TUI_SIZE_LINE)
        return;
    int top = l.header_rows, bottom = in->h - l.footer_rows;
    assert_true(top > 0 && bottom > top);
    for (int i = 0; i < TUI_N_PANES; i++) {
        const struct tui_rect *r = &l.pane[i], *inner = &l.inner[i];
        if (!r->w)
            continue;
        assert_true(in->shown & 1u << i);
        assert_true(r->x >= 0 && r->y >= top && r->x + r->w <= in->w && r->y + r->h <= bottom);
        assert_true(inner->x >= r->x && inner->x + inner->w <= r->x + r->w);
        assert_true(inner->h == 0 || (inner->y >= r->y && inner->y + inner->h <= r->y + r->h));
        for (int j = 0; j < i; j++)
            if (overlap(r, &l.pane[j]))
                fail_msg("%dx%d: panes %d and %d overlap", in->w, in->h, i + 1, j + 1);
        area += (long)r->w * r->h;
    }
    if (in->maximised || in->shown & 1u << in->focus)
        assert_true(l.pane[in->focus].w > 0);
    /* No hole: what is shown fills the screen between header and footer. */
    if (in->shown)
        assert_int_equal(area, (long)in->w * (bottom - top));
}

static void any_size_and_choice(void **state)
{
    (void)state;
    for (int i = 0; i < 40000; i++) {
        struct tui_layout_in in = {
            .w = 1 + below(320),
            .h = 1 + below(110),
            .shown = (unsigned)below(1 << TUI_N_PANES),
            .focus = below(TUI_N_PANES),
            .n_devices = below(20),
            .footer_rows = 1 + below(2),
        };
        if (i % 3 == 0) { /* around the borders between sizes */
            in.w = 38 + below(5) + 40 * below(3);
            in.h = 9 + below(30);
        }
        in.maximised = below(5) == 0 && in.shown & 1u << in.focus;
        check(&in);
    }
}

static struct tui_layout at(int w, int h)
{
    struct tui_layout l;
    struct tui_layout_in in = {.w = w,
                               .h = h,
                               .shown = TUI_PANES_SHOWN,
                               .focus = TUI_PANE_LOSS,
                               .n_devices = 2,
                               .footer_rows = 1};
    tui_layout_make(&in, &l);
    return l;
}

static void the_sizes_people_have(void **state)
{
    (void)state;
    struct tui_layout l = at(80, 24);
    assert_int_equal(l.size, TUI_SIZE_STANDARD);
    for (int i = 0; i < TUI_N_PANES; i++)
        if (TUI_PANES_SHOWN & 1u << i)
            assert_true(l.inner[i].h >= 2 && l.inner[i].w >= 30);
    l = at(120, 36);
    assert_int_equal(l.size, TUI_SIZE_FULL);
    for (int i = 0; i < TUI_N_PANES; i++)
        if (TUI_PANES_SHOWN & 1u << i)
            assert_true(l.inner[i].h >= 2);
    l = at(119, 36);
    assert_int_equal(l.size, TUI_SIZE_STANDARD);
    l = at(40, 10);
    assert_int_equal(l.size, TUI_SIZE_COMPACT);
    assert_true(l.pane[TUI_PANE_LOSS].h == 7);
    assert_int_equal(at(39, 10).size, TUI_SIZE_LINE);
    assert_int_equal(at(40, 9).size, TUI_SIZE_LINE);
    assert_int_equal(at(1, 1).size, TUI_SIZE_LINE);
}

static void shares_are_exact(void **state)
{
    (void)state;
    for (int k = 0; k < 20000; k++) {
        int weight[4], min[4], max[4], out[4], n = 1 + below(4), total = below(120), sum = 0,
                                               least = 0;
        for (int i = 0; i < n; i++) {
            weight[i] = 1 + below(9);
            min[i] = below(12);
            max[i] = below(2) ? INT_MAX : min[i] + below(20);
            least += min[i];
        }
        bool ok = tui_layout_share(total, n, weight, min, max, out);
        assert_int_equal(ok, least <= total);
        for (int i = 0; ok && i < n; i++) {
            assert_true(out[i] >= min[i]);
            assert_true(i == n - 1 || out[i] <= max[i]);
            sum += out[i];
        }
        if (ok)
            assert_int_equal(sum, total);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_size_and_choice),
        cmocka_unit_test(the_sizes_people_have),
        cmocka_unit_test(shares_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
