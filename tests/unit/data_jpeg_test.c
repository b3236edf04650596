#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/base/rng.h"
#include "core/data/jpeg.h"
#include "tests/unit/data_encode.h"

static const struct encode kinds[] = {
    {.from = JCS_RGB},
    {.from = JCS_RGB, .h_samp = 1, .v_samp = 1},
    {.from = JCS_RGB, .h_samp = 2, .v_samp = 1},
    {.from = JCS_RGB, .h_samp = 1, .v_samp = 2},
    {.from = JCS_RGB, .h_samp = 4, .v_samp = 1},
    {.from = JCS_RGB, .into = JCS_RGB},
    {.from = JCS_RGB, .progressive = true},
    {.from = JCS_RGB, .h_samp = 2, .v_samp = 1, .progressive = true},
    {.from = JCS_RGB, .restart = 3},
    {.from = JCS_RGB, .arithmetic = true},
    {.from = JCS_GRAYSCALE},
    {.from = JCS_GRAYSCALE, .progressive = true},
    {.from = JCS_CMYK},
    {.from = JCS_CMYK, .into = JCS_YCCK},
};
enum { KINDS = (int)(sizeof kinds / sizeof kinds[0]) };

/* libjpeg writes CMYK with Adobe's marker, so the file's numbers are inverted inks. */
static uint8_t plain(const uint8_t *pixel, int channels, int c)
{
    return channels == 3 ? pixel[c] : (uint8_t)(pixel[c] * pixel[3] / 255.0 + 0.5);
}

static void check_view(const struct bst_jpeg_view *v, const uint8_t *whole, int w, int h,
                       int channels)
{
    assert_true(v->part.x >= 0 && v->part.x + v->part.w <= w);
    assert_true(v->part.y >= 0 && v->part.y + v->part.h <= h);
    /* The margin's outer columns may lack a neighbour; what was asked for may not. */
    for (int y = 0; y < v->part.h; y++)
        for (int x = 0; x < v->part.w; x++)
            for (int c = 0; c < 3; c++) {
                int at = (v->part.y + y) * w + v->part.x + x;
                bool rim =
                    (x < 2 && v->part.x) || (x >= v->part.w - 2 && v->part.x + v->part.w < w);
                int got = v->pixels[(size_t)y * v->stride + (size_t)(3 * x + c)];
                if (!rim && got != plain(whole + (size_t)at * (size_t)channels, channels, c))
                    fail_msg("pixel (%d, %d) of part (%d, %d, %d, %d), channel %d: %d", x, y,
                             v->part.x, v->part.y, v->part.w, v->part.h, c, got);
            }
}

static void check_parts(struct bst_jpeg *j, const uint8_t *data, size_t n, int denominator,
                        uint64_t seed)
{
    struct bst_rng r;
    int w, h, channels;
    uint8_t *whole = decode_jpeg(data, n, denominator, &w, &h, &channels);
    bst_rng_init(&r, seed, BST_RNG_TEST, 0);
    for (int i = 0; i < 25; i++) {
        struct bst_jpeg_view view;
        int full_w, full_h;
        assert_int_equal(bst_jpeg_header(j, data, n, &full_w, &full_h), BST_OK);
        struct bst_jpeg_rect p = {.w = full_w, .h = full_h};
        if (i) {
            p.w = 1 + (int)bst_rng_below(&r, (uint32_t)full_w);
            p.h = 1 + (int)bst_rng_below(&r, (uint32_t)full_h);
            p.x = (int)bst_rng_below(&r, (uint32_t)(full_w - p.w + 1));
            p.y = (int)bst_rng_below(&r, (uint32_t)(full_h - p.h + 1));
        }
        if (bst_jpeg_decode(j, p, denominator, &view))
            fail_msg("%s", bst_err_text());
        assert_true(view.part.x * denominator <= p.x && view.part.y * denominator <= p.y);
        assert_true((view.part.x + view.part.w) * denominator >= p.x + p.w);
        assert_true((view.part.y + view.part.h) * denominator >= p.y + p.h);
        check_view(&view, whole, w, h, channels);
    }
    free(whole);
}

/* Any part, of any kind of file, at any scale, is what a whole decoding has there. */
static void parts_equal_the_whole(void **state)
{
    (void)state;
    static const int sizes[][2] = {{131, 97}, {64, 48}, {17, 33}, {3, 5}, {1, 1}};
    struct bst_jpeg *j = bst_jpeg_new();
    for (int k = 0; k < KINDS; k++)
        for (int s = 0; s < 5; s++) {
            struct encode e = kinds[k];
            size_t n;
            e.w = sizes[s][0];
            e.h = sizes[s][1];
            uint8_t *data = encode_jpeg(&e, &n);
            for (int denominator = 1; denominator <= 8; denominator *= 2)
                check_parts(j, data, n, denominator, (uint64_t)(k * 5 + s));
            free(data);
        }
    bst_jpeg_free(j);
}

static enum bst_err decode_all(struct bst_jpeg *j, const uint8_t *data, size_t n,
                               struct bst_jpeg_view *view)
{
    int w, h;
    BST_TRY(bst_jpeg_header(j, data, n, &w, &h));
    return bst_jpeg_decode(j, (struct bst_jpeg_rect){0, 0, w, h}, 1, view);
}

/* text: how the message starts; libjpeg's words differ between its versions. */
static void check_refused(const void *data, size_t n, enum bst_err err, const char *text)
{
    struct bst_jpeg *j = bst_jpeg_new();
    struct bst_jpeg_view view;
    assert_int_equal(decode_all(j, data, n, &view), err);
    if (strncmp(bst_err_text(), text, strlen(text)))
        fail_msg("\"%s\", expected \"%s\"", bst_err_text(), text);
    bst_jpeg_free(j);
}

static void other_things_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *data;
        size_t n;
        enum bst_err err;
        const char *text;
    } things[] = {
        {"", 0, BST_E_CORRUPT, "empty file"},
        {"\xFF\xD8", 2, BST_E_CORRUPT, "damaged JPEG: cut off at byte 2, no end marker"},
        {"\xFF\xD8\xFF\xD9", 4, BST_E_CORRUPT, "damaged JPEG: JPEG datastream contains no image"},
        {"\xFF\xD9", 2, BST_E_CORRUPT, "damaged JPEG: Not a JPEG file: starts with 0xff 0xd9"},
        {"hello\xFF\xD9", 7, BST_E_CORRUPT, "damaged JPEG: Not a JPEG file: starts with 0x68 0x65"},
        {"\x89PNG\r\n\x1A\n", 8, BST_E_UNSUPPORTED, "a PNG file, expected a JPEG"},
        {"GIF89a", 6, BST_E_UNSUPPORTED, "a GIF file, expected a JPEG"},
        {"<!DOCTYPE html>", 15, BST_E_UNSUPPORTED, "an HTML or XML file, expected a JPEG"},
        {"\x00", 1, BST_E_CORRUPT, "damaged JPEG: cut off at byte 1, no end marker"},
    };
    for (size_t i = 0; i < sizeof things / sizeof things[0]; i++)
        check_refused(things[i].data, things[i].n, things[i].err, things[i].text);
}

/* A start-of-frame that says so many pixels is enough to be refused, before anything is allocated.
 */
static void huge_images_are_refused(void **state)
{
    (void)state;
    size_t n, before = bst_alloc_peak();
    struct encode e = {.w = 16, .h = 16, .from = JCS_RGB};
    uint8_t *data = encode_jpeg(&e, &n), *sof = NULL;
    for (size_t i = 0; i + 9 < n && !sof; i++)
        if (data[i] == 0xFF && data[i + 1] == 0xC0)
            sof = data + i;
    assert_non_null(sof);
    sof[5] = sof[7] = 0xFF;
    sof[6] = sof[8] = 0xDC;
    check_refused(data, n, BST_E_UNSUPPORTED,
                  "JPEG of 65500 × 65500 pixels, at most 67108864 allowed");
    sof[5] = sof[6] = 0;
    check_refused(data, n, BST_E_CORRUPT, "damaged JPEG: ");
    sof[4] = 12;
    sof[6] = 16;
    check_refused(data, n, BST_E_CORRUPT, "damaged JPEG: Unsupported JPEG data precision 12");
    assert_int_equal(bst_alloc_peak(), before);
    free(data);
}

static void too_many_scans_are_refused(void **state)
{
    (void)state;
    size_t n;
    struct bst_jpeg_view view;
    struct bst_jpeg *j = bst_jpeg_new();
    struct encode e = {.w = 64, .h = 64, .from = JCS_RGB, .h_samp = 1, .v_samp = 1, .scans = 1000};
    uint8_t *data = encode_jpeg(&e, &n);
    check_refused(data, n, BST_E_CORRUPT,
                  "damaged JPEG: more than 100 scans, or too many for its size");
    free(data);
    e.scans = 100;
    data = encode_jpeg(&e, &n);
    assert_int_equal(decode_all(j, data, n, &view), BST_OK);
    free(data);
    /* 99 scans of 8 M pixels are more work than any photograph. */
    e.scans = 99;
    e.w = 4096;
    e.h = 2048;
    uint8_t *flat = calloc((size_t)e.w * (size_t)e.h, 1);
    e.from = JCS_GRAYSCALE;
    e.h_samp = e.v_samp = 0;
    e.pixels = flat;
    data = encode_jpeg(&e, &n);
    assert_int_equal(decode_all(j, data, n, &view), BST_E_CORRUPT);
    free(flat);
    free(data);
    bst_jpeg_free(j);
}

/* Cut at every percent, without and with an end marker put on: never accepted whole, and a part
 * above the cut has the right pixels or is refused. */
static void cut_files_never_give_made_up_pixels(void **state)
{
    (void)state;
    struct bst_jpeg *j = bst_jpeg_new();
    for (int progressive = 0; progressive < 2; progressive++) {
        size_t n;
        int w, h, channels, accepted = 0;
        struct encode e = {.w = 131, .h = 97, .from = JCS_RGB, .progressive = progressive};
        uint8_t *data = encode_jpeg(&e, &n);
        uint8_t *whole = decode_jpeg(data, n, 1, &w, &h, &channels);
        for (size_t percent = 0; percent < 100; percent++) {
            struct bst_jpeg_view view;
            size_t cut = n * percent / 100;
            uint8_t *part = malloc(cut + 2);
            memcpy(part, data, cut);
            assert_int_not_equal(decode_all(j, part, cut, &view), BST_OK);
            part[cut] = 0xFF;
            part[cut + 1] = 0xD9;
            assert_int_not_equal(decode_all(j, part, cut + 2, &view), BST_OK);
            if (!bst_jpeg_header(j, part, cut + 2, &w, &h) &&
                !bst_jpeg_decode(j, (struct bst_jpeg_rect){8, 8, 60, 20}, 1, &view)) {
                check_view(&view, whole, w, h, channels);
                accepted++;
            }
            free(part);
        }
        assert_true(progressive ? accepted == 0 : accepted > 10);
        free(whole);
        free(data);
    }
    bst_jpeg_free(j);
}

/* Every DHT segment taken out: the standard tables hold then, not those of the image before. */
static size_t drop_tables(uint8_t *data, size_t n)
{
    size_t out = 2;
    for (size_t at = 2; at < n;) {
        size_t len = 2 + (size_t)(data[at + 2] << 8 | data[at + 3]);
        if (data[at + 1] == 0xDA)
            len = n - at;
        if (data[at + 1] != 0xC4) {
            memmove(data + out, data + at, len);
            out += len;
        }
        at += len;
    }
    return out;
}

static void images_do_not_lend_their_tables(void **state)
{
    (void)state;
    size_t n, other_n;
    int w, h;
    struct bst_jpeg_view view;
    struct bst_jpeg *used = bst_jpeg_new();
    struct encode e = {.w = 40, .h = 30, .from = JCS_RGB};
    struct encode other = {.w = 64, .h = 64, .from = JCS_RGB, .optimise = true, .quality = 20};
    uint8_t *whole, *data = encode_jpeg(&e, &n), *rest = encode_jpeg(&other, &other_n);
    int channels;
    whole = decode_jpeg(data, n, 1, &w, &h, &channels);
    n = drop_tables(data, n);
    assert_int_equal(decode_all(used, rest, other_n, &view), BST_OK);
    assert_int_equal(decode_all(used, data, n, &view), BST_OK);
    check_view(&view, whole, w, h, channels);
    free(whole);
    free(data);
    free(rest);
    bst_jpeg_free(used);
}

/* Bits flipped anywhere: refused, or all pixels written, which two runs over other rubbish would
 * tell. */
static void flipped_bits_leave_nothing_unwritten(void **state)
{
    (void)state;
    struct bst_rng r;
    size_t n;
    int refused = 0;
    struct bst_jpeg *j = bst_jpeg_new(), *k = bst_jpeg_new();
    bst_rng_init(&r, 1, BST_RNG_TEST, 0);
    struct encode e = {.w = 61, .h = 47, .from = JCS_RGB};
    uint8_t *data = encode_jpeg(&e, &n);
    struct encode other = {.w = 64, .h = 64, .from = JCS_GRAYSCALE};
    size_t other_n;
    uint8_t *rubbish = encode_jpeg(&other, &other_n);
    for (int i = 0; i < 1000; i++) {
        struct bst_jpeg_view a, b, unused;
        uint32_t bit = bst_rng_below(&r, (uint32_t)n * 8);
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(decode_all(k, rubbish, other_n, &unused), BST_OK);
        enum bst_err err = decode_all(j, data, n, &a);
        assert_int_equal(decode_all(k, data, n, &b), err);
        refused += err != BST_OK;
        if (!err) {
            assert_int_equal(a.part.h, b.part.h);
            assert_memory_equal(a.pixels, b.pixels, a.stride * (size_t)a.part.h);
        }
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_true(refused > 20);
    free(data);
    free(rubbish);
    bst_jpeg_free(j);
    bst_jpeg_free(k);
}

static void harmless_remarks_are_no_damage(void **state)
{
    (void)state;
    size_t n;
    struct bst_jpeg_view view;
    struct bst_jpeg *j = bst_jpeg_new();
    struct encode e = {.w = 20, .h = 20, .from = JCS_RGB};
    uint8_t *data = encode_jpeg(&e, &n);
    /* Stray bytes between two markers, and padding behind the end. */
    uint8_t *stray = calloc(n + 1000, 1);
    memcpy(stray, data, 20);
    memset(stray + 20, 0x11, 3);
    memcpy(stray + 23, data + 20, n - 20);
    assert_int_equal(decode_all(j, stray, n + 1000, &view), BST_OK);
    free(stray);
    free(data);
    bst_jpeg_free(j);
}

static void cmyk_becomes_colour(void **state)
{
    (void)state;
    static const uint8_t inks[4] = {230, 40, 120, 200}; /* inverted, as Adobe writes */
    uint8_t pixels[16 * 16 * 4];
    size_t n;
    struct bst_jpeg_view view;
    struct bst_jpeg *j = bst_jpeg_new();
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = inks[i % 4];
    struct encode e = {.w = 16, .h = 16, .from = JCS_CMYK, .pixels = pixels, .quality = 100};
    uint8_t *data = encode_jpeg(&e, &n);
    assert_int_equal(decode_all(j, data, n, &view), BST_OK);
    for (int c = 0; c < 3; c++)
        assert_in_range(view.pixels[c] - inks[c] * inks[3] / 255 + 2, 0, 4);
    free(data);
    bst_jpeg_free(j);
}

static void memory_is_counted_and_kept(void **state)
{
    (void)state;
    size_t n, before = bst_alloc_held();
    struct bst_jpeg_view view;
    struct bst_jpeg *j = bst_jpeg_new();
    struct encode e = {.w = 200, .h = 100, .from = JCS_RGB};
    uint8_t *data = encode_jpeg(&e, &n);
    assert_int_equal(decode_all(j, data, n, &view), BST_OK);
    size_t held = bst_alloc_held() - before;
    assert_int_equal(held, bst_jpeg_bytes(j));
    assert_int_equal(decode_all(j, data, n, &view), BST_OK);
    assert_int_equal(bst_alloc_held() - before, held);
    bst_jpeg_free(j);
    assert_int_equal(bst_alloc_held(), before);
    free(data);
    bst_jpeg_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_equal_the_whole),
        cmocka_unit_test(other_things_are_refused),
        cmocka_unit_test(huge_images_are_refused),
        cmocka_unit_test(too_many_scans_are_refused),
        cmocka_unit_test(cut_files_never_give_made_up_pixels),
        cmocka_unit_test(images_do_not_lend_their_tables),
        cmocka_unit_test(flipped_bits_leave_nothing_unwritten),
        cmocka_unit_test(harmless_remarks_are_no_damage),
        cmocka_unit_test(cmyk_becomes_colour),
        cmocka_unit_test(memory_is_counted_and_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
