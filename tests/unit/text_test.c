/* JSON writing, numbers as text, and text made safe to show. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/json.h"
#include "core/base/rng.h"
#include "core/base/text.h"

static void check_num(double value, const char *want)
{
    char text[32];
    bst_num_text(value, text);
    assert_string_equal(text, want);
}

static void numbers_are_short_and_yaml_reads_them(void **state)
{
    (void)state;
    check_num(0.1, "0.1");
    check_num(307, "307");
    check_num(-0.5, "-0.5");
    check_num(0, "0");
    check_num(1e-5, "1.0e-05");
    check_num(1.5e-7, "1.5e-07");
    check_num(1e300, "1.0e+300");
    check_num(0.1 + 0.2, "0.30000000000000004");
    check_num(1.0 / 3, "0.3333333333333333");
    check_num(5e-324, "4.94065645841247e-324");
    check_num(1.7976931348623157e308, "1.7976931348623157e+308");
    check_num(NAN, "nan");
    check_num(-INFINITY, "-inf");
    char text[32];
    bst_num_brief(0.1 * 1.19921875, 9, text);
    assert_string_equal(text, "0.119921875");
    bst_num_brief(1234567, 3, text);
    assert_string_equal(text, "1.23e+06");
}

static void every_number_reads_back(void **state)
{
    (void)state;
    struct bst_rng r;
    bst_rng_init(&r, 2, BST_RNG_TEST, 0);
    for (int i = 0; i < 100000; i++) {
        uint64_t bits = bst_rng_u64(&r);
        double value, back;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        char text[32];
        bst_num_text(value, text);
        assert_true(bst_num_parse(text, &back));
        assert_true(back == value);
    }
}

/* A console calls setlocale; where the locale has a comma, files still have points. */
static void the_locale_changes_nothing(void **state)
{
    (void)state;
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "C.UTF-8"};
    const char *got = NULL;
    for (int i = 0; i < 4 && !got; i++)
        got = setlocale(LC_ALL, names[i]);
    check_num(0.5, "0.5");
    double value;
    assert_true(bst_num_parse("0.25", &value) && value == 0.25);
    assert_false(bst_num_parse("0,25", &value));
    setlocale(LC_ALL, "C");
}

static void what_is_no_number_is_refused(void **state)
{
    (void)state;
    static const char *const no[] = {"",  " 1",  "1 ",  "nan", "inf", "-inf",  "0x10",  "1e", "e5",
                                     ".", "1e+", "1_0", "--1", "+-1", "1.5.2", "1e400", "1f", "١"};
    double d;
    int64_t n;
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++) {
        if (bst_num_parse(no[i], &d) || bst_int_parse(no[i], &n))
            fail_msg("'%s' was taken for a number", no[i]);
    }
    assert_true(bst_num_parse(".5", &d) && d == 0.5);
    assert_true(bst_num_parse("5.", &d) && d == 5);
    assert_true(bst_num_parse("-1E-3", &d) && d == -1e-3);
    assert_true(bst_num_parse("+2", &d) && d == 2);
    assert_true(bst_int_parse("-9223372036854775808", &n) && n == INT64_MIN);
    assert_true(bst_int_parse("010", &n) && n == 10);
    assert_false(bst_int_parse("9223372036854775808", &n));
    assert_false(bst_int_parse("1.0", &n));
    assert_false(bst_int_parse("-", &n));
}

static void json_is_written_as_it_should_be(void **state)
{
    (void)state;
    struct bst_sb sb;
    struct bst_json j;
    bst_sb_init(&sb, 10000);
    bst_json_init(&j, &sb);
    bst_json_open(&j, NULL, '{');
    bst_json_str(&j, "type", "update");
    bst_json_int(&j, "n", -3);
    bst_json_uint(&j, "samples", UINT64_MAX);
    bst_json_num(&j, "loss", 0.25);
    bst_json_num(&j, "bad", INFINITY);
    bst_json_bool(&j, "ok", true);
    bst_json_null(&j, "none");
    bst_json_str(&j, "nil", NULL);
    bst_json_open(&j, "list", '[');
    bst_json_num(&j, NULL, 1e-5);
    bst_json_open(&j, NULL, '{');
    bst_json_close(&j, '}');
    bst_json_open(&j, NULL, '[');
    bst_json_close(&j, ']');
    bst_json_close(&j, ']');
    bst_json_raw(&j, "raw", "[1,2]");
    bst_json_close(&j, '}');
    assert_string_equal(
        sb.data, "{\"type\":\"update\",\"n\":-3,\"samples\":18446744073709551615,\"loss\":0.25,"
                 "\"bad\":null,\"ok\":true,\"none\":null,\"nil\":null,\"list\":[1.0e-05,{},[]],"
                 "\"raw\":[1,2]}");
    bst_sb_fini(&sb);
}

static void json_says_why_a_value_is_missing(void **state)
{
    (void)state;
    struct bst_sb sb;
    struct bst_json j;
    bst_sb_init(&sb, 10000);
    bst_json_init(&j, &sb);
    bst_json_num_or_why(&j, "a", NAN);
    assert_string_equal(sb.data, "\"a\":null,\"nonfinite\":\"nan\"");
    bst_sb_clear(&sb);
    bst_json_init(&j, &sb);
    bst_json_num_or_why(&j, "a", -INFINITY);
    assert_string_equal(sb.data, "\"a\":null,\"nonfinite\":\"inf\"");
    bst_sb_clear(&sb);
    bst_json_init(&j, &sb);
    bst_json_num_or_why(&j, "a", 2);
    assert_string_equal(sb.data, "\"a\":2");
    bst_sb_fini(&sb);
}

static void json_strings_are_escaped_and_valid_utf8(void **state)
{
    (void)state;
    struct bst_sb sb;
    struct bst_json j;
    bst_sb_init(&sb, 10000);
    bst_json_init(&j, &sb);
    bst_json_str(&j, "k\"",
                 "a\"b\\c\n\t\x01\x7f \xC3\xA9 \xE2\x82\xAC \xFF\xC3 \xED\xA0\x80 \xC0\xAF");
    assert_string_equal(sb.data,
                        "\"k\\\"\":\"a\\\"b\\\\c\\n\\t\\u0001\\u007f \xC3\xA9 \xE2\x82\xAC "
                        "\xEF\xBF\xBD\xEF\xBF\xBD \xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD "
                        "\xEF\xBF\xBD\xEF\xBF\xBD\"");
    bst_sb_fini(&sb);
}

static void check_clean(const char *in, size_t n, const char *want)
{
    struct bst_sb sb;
    bst_sb_init(&sb, 1000);
    bst_text_clean(&sb, in, n);
    assert_string_equal(sb.data, want);
    bst_sb_fini(&sb);
}

#define CLEAN(in, want) check_clean(in, sizeof in - 1, want)

static void what_could_drive_a_terminal_becomes_visible(void **state)
{
    (void)state;
    CLEAN("plain \xC3\xA9 \xE2\x82\xAC", "plain \xC3\xA9 \xE2\x82\xAC");
    CLEAN("\x1b[31mred\x1b]52;c;eA==\x07", "\\x1b[31mred\\x1b]52;c;eA==\\x07");
    CLEAN("a\nb\tc\r", "a\\nb\\tc\\x0d");
    CLEAN("nul\0in", "nul\\x00in");
    CLEAN("\xC2\x9B"
          "31m",
          "\\x9b31m"); /* C1 CSI as UTF-8 */
    CLEAN("\x9B"
          "31m",
          "\\x9b31m"); /* and as a bare byte */
    CLEAN("a\xE2\x80\xAE"
          "b",
          "a\\u{202e}b"); /* right-to-left override */
    CLEAN("a\xE2\x80\x8B"
          "b",
          "a\\u{200b}b"); /* zero width space */
    CLEAN("\xEF\xBB\xBF", "\\u{feff}");
    CLEAN("\xF3\xA0\x80\xA0", "\\u{e0020}"); /* a tag character */
    CLEAN("\xC0\xAF\xF5\x80", "\\xc0\\xaf\\xf5\\x80");
    CLEAN("\xE2\x82", "\\xe2\\x82");          /* cut short */
    CLEAN("\xED\xA0\x80", "\\xed\\xa0\\x80"); /* a surrogate */
}

static void no_byte_string_gets_through(void **state)
{
    (void)state;
    struct bst_rng r;
    bst_rng_init(&r, 4, BST_RNG_TEST, 0);
    for (int i = 0; i < 20000; i++) {
        char in[24];
        size_t n = bst_rng_below(&r, sizeof in);
        for (size_t k = 0; k < n; k++)
            in[k] = (char)(bst_rng_below(&r, 4) ? bst_rng_u32(&r) : 0xE2);
        struct bst_sb sb;
        bst_sb_init(&sb, 1000);
        bst_text_clean(&sb, in, n);
        size_t at = 0;
        while (at < sb.len) {
            uint32_t point;
            size_t len = bst_text_utf8(sb.data + at, sb.len - at, &point);
            assert_true(len > 0 && point >= 0x20 && (point < 0x7F || point > 0x9F));
            at += len;
        }
        bst_sb_fini(&sb);
    }
}

static void near_words_are_found(void **state)
{
    (void)state;
    static const char *const names[] = {"warmup_epochs", "warmup_steps", "weight_decay", "lr",
                                        "model"};
    assert_int_equal(bst_text_nearest("warmup_stpes", names, 5), 1);
    assert_int_equal(bst_text_nearest("warmup_epoch", names, 5), 0);
    assert_int_equal(bst_text_nearest("weigth_decay", names, 5), 2);
    assert_int_equal(bst_text_nearest("modle", names, 5), 4);
    assert_int_equal(bst_text_nearest("lr", names, 5), 3);
    assert_int_equal(bst_text_nearest("xr", names, 5), 3);
    assert_int_equal(bst_text_nearest("x", names, 5), -1); /* all of it would have to change */
    assert_int_equal(bst_text_nearest("completely", names, 5), -1);
    assert_int_equal(bst_text_nearest("", names, 5), -1);
    char longest[200];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(bst_text_nearest(longest, names, 5), -1);
}

static void names_of_presets_and_runs(void **state)
{
    (void)state;
    static const char *const yes[] = {"a", "quickstart", "resnet50-1024.v2_x", "3090"};
    static const char *const no[] = {"",    ".",    "..",  "-a",       "_a",
                                     "a/b", "../a", "a b", "\xC3\xA9", "a\n"};
    for (size_t i = 0; i < 4; i++)
        assert_true(bst_text_is_name(yes[i]));
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
        assert_false(bst_text_is_name(no[i]));
    char name[70];
    memset(name, 'a', 65);
    name[64] = '\0';
    assert_true(bst_text_is_name(name));
    name[64] = 'a';
    name[65] = '\0';
    assert_false(bst_text_is_name(name));
}

static void bytes_both_ways(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } shown[] = {{0, "0 B"},
                 {1023, "1023 B"},
                 {1024, "1.00 KiB"},
                 {1536, "1.50 KiB"},
                 {1048571, "1.00 MiB"},
                 {2093796557, "1.95 GiB"},
                 {1ull << 40, "1.00 TiB"},
                 {UINT64_MAX, "16.00 EiB"}};
    char text[32];
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        bst_text_bytes(shown[i].bytes, text);
        assert_string_equal(text, shown[i].text);
    }
    static const struct {
        const char *text;
        uint64_t bytes;
    } read[] = {{"8GiB", 8ull << 30},
                {"512MiB", 512ull << 20},
                {"1000", 1000},
                {"1.5GiB", 3ull << 29},
                {"1.95 GiB", 2093796556},
                {"2GB", 2000000000},
                {"0", 0},
                {"7B", 7},
                {"1PiB", 1ull << 50},
                {"1.5EiB", 3ull << 59},
                {"2PB", 2000000000000000}};
    uint64_t bytes;
    for (size_t i = 0; i < sizeof read / sizeof read[0]; i++) {
        assert_true(bst_text_parse_bytes(read[i].text, &bytes));
        assert_int_equal(bytes, read[i].bytes);
    }
    static const char *const no[] = {"",
                                     "GiB",
                                     "-1",
                                     "1.5",
                                     "8gib",
                                     "8 ",
                                     "8  GiB",
                                     "8GiBx",
                                     "1..5GiB",
                                     ".5GiB",
                                     "99999999999999999999",
                                     "17179869184GiB",
                                     "16EiB",
                                     "1e3MiB"};
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
        if (bst_text_parse_bytes(no[i], &bytes))
            fail_msg("'%s' was taken for %lu bytes", no[i], (unsigned long)bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_short_and_yaml_reads_them),
        cmocka_unit_test(every_number_reads_back),
        cmocka_unit_test(the_locale_changes_nothing),
        cmocka_unit_test(what_is_no_number_is_refused),
        cmocka_unit_test(json_is_written_as_it_should_be),
        cmocka_unit_test(json_says_why_a_value_is_missing),
        cmocka_unit_test(json_strings_are_escaped_and_valid_utf8),
        cmocka_unit_test(what_could_drive_a_terminal_becomes_visible),
        cmocka_unit_test(no_byte_string_gets_through),
        cmocka_unit_test(near_words_are_found),
        cmocka_unit_test(names_of_presets_and_runs),
        cmocka_unit_test(bytes_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
