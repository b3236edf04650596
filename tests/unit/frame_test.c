#include "tui/frame.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void expect(struct tui_frame *f, const char *text)
{
    struct bst_sb sb;
    bst_sb_init(&sb, 100000);
    tui_frame_text(f, &sb);
    assert_string_equal(sb.data, text);
    bst_sb_fini(&sb);
}

static void text_is_cut_at_the_edge(void **state)
{
    (void)state;
    struct tui_frame f;
    tui_frame_init(&f, 6, 2);
    struct tui_area a = tui_area_sub(tui_area_all(&f), 1, 0, 4, 1);
    assert_int_equal(tui_put(a, 0, 0, TUI_NORMAL, "abcdefgh"), 8);
    tui_put(a, -2, 0, TUI_NORMAL, "");
    tui_put(a, 0, 1, TUI_NORMAL, "below");
    expect(&f, " abcd\n\n");
    assert_int_equal(tui_put_cut(a, 0, 0, 4, TUI_NORMAL, "αβγδε"), 4);
    expect(&f, " αβγ…\n\n");
    tui_frame_fini(&f);
}

static void wide_characters_take_two(void **state)
{
    (void)state;
    struct tui_frame f;
    tui_frame_init(&f, 5, 1);
    struct tui_area a = tui_area_all(&f);
    assert_int_equal(tui_put(a, 0, 0, TUI_NORMAL, "数据x"), 5);
    expect(&f, "数据x\n");
    /* Writing over one half leaves no other half behind. */
    tui_put(a, 1, 0, TUI_NORMAL, "-");
    expect(&f, " -据x\n");
    tui_put(a, 2, 0, TUI_NORMAL, "-");
    expect(&f, " -- x\n");
    tui_frame_clear(&f);
    /* None is cut through the middle. */
    tui_put(a, 4, 0, TUI_NORMAL, "数");
    expect(&f, "\n");
    tui_put(a, 1, 0, TUI_NORMAL, "数");
    tui_put(a, 0, 0, TUI_NORMAL, "据");
    expect(&f, "据\n");
    tui_frame_fini(&f);
}

static void hostile_text_is_harmless(void **state)
{
    (void)state;
    struct tui_frame f;
    tui_frame_init(&f, 40, 1);
    tui_put(tui_area_all(&f), 0, 0, TUI_NORMAL, "\x1b[2J\r\n\t\x9b\xff\u202e");
    for (int i = 0; i < 40; i++)
        assert_true(f.cells[i].ch >= 32 && f.cells[i].ch < 127);
    expect(&f, "\\x1b[2J\\x0d\\n\\t\\x9b\\xff\\u{202e}\n");
    tui_frame_fini(&f);
}

static void ascii_is_ascii(void **state)
{
    (void)state;
    struct tui_frame f;
    tui_frame_init(&f, 40, 3);
    f.ascii = true;
    struct tui_area a = tui_area_all(&f);
    tui_box(a, TUI_RULE);
    tui_put(a, 1, 1, TUI_NORMAL, "batch 256 → 307 = 64 × 5 … é ◆ 数");
    for (int i = 0; i < 40 * 3; i++)
        assert_true(f.cells[i].ch >= 32 && f.cells[i].ch < 127);
    tui_frame_fini(&f);
}

static void any_place_is_safe(void **state)
{
    (void)state;
    struct tui_frame f;
    uint32_t seed = 5;
    tui_frame_init(&f, 17, 9);
    for (int i = 0; i < 50000; i++) {
        int v[6];
        for (int k = 0; k < 6; k++) {
            seed = seed * 1664525u + 1013904223u;
            v[k] = (int)(seed >> 8) % 60 - 20;
        }
        struct tui_area a = tui_area_sub(tui_area_all(&f), v[0], v[1], v[2], v[3]);
        tui_put(a, v[4], v[5], TUI_NORMAL, "a数b");
        tui_put_cut(a, v[5], v[4], v[2], TUI_NORMAL, "数数数");
        tui_put_right(a, v[4], v[0], TUI_NORMAL, "数x");
        tui_box(a, TUI_RULE);
    }
    for (int y = 0; y < 9; y++)
        for (int x = 0; x < 17; x++) {
            const struct tui_cell *c = &f.cells[y * 17 + x];
            bool half = x > 0 && wcwidth(c[-1].ch) == 2;
            assert_int_equal(c->ch == 0, half);
        }
    tui_frame_fini(&f);
}

static int set_locale(void **state)
{
    (void)state;
    return setlocale(LC_CTYPE, "C.UTF-8") ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_cut_at_the_edge),  cmocka_unit_test(wide_characters_take_two),
        cmocka_unit_test(hostile_text_is_harmless), cmocka_unit_test(ascii_is_ascii),
        cmocka_unit_test(any_place_is_safe),
    };
    return cmocka_run_group_tests(tests, set_locale, NULL);
}
