#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/rng.h"
#include "core/run/wire.h"

/* Whatever the pieces that a stream arrives in, the lines are the same. */
static void lines_do_not_depend_on_the_pieces(void **state)
{
    static const char text[] = "one\n\ntwo two\nthree\nrest";
    static const char *const want[] = {"one", "", "two two", "three"};
    (void)state;
    for (size_t piece = 1; piece < sizeof text; piece++) {
        struct bst_frames f;
        size_t n, got = 0;
        bst_frames_init(&f, 64);
        for (size_t at = 0; at < sizeof text - 1; at += piece) {
            size_t some = sizeof text - 1 - at < piece ? sizeof text - 1 - at : piece;
            assert_int_equal(bst_frames_feed(&f, text + at, some), BST_OK);
            for (char *line; (line = bst_frames_next(&f, &n)) != NULL; got++) {
                assert_true(got < 4);
                assert_string_equal(line, want[got]);
                assert_int_equal(n, strlen(want[got]));
            }
        }
        assert_int_equal(got, 4);
        assert_true(bst_frames_partial(&f));
        bst_frames_fini(&f);
    }
}

static void a_line_past_the_cap_is_refused(void **state)
{
    char big[100];
    struct bst_frames f;
    size_t n;
    (void)state;
    memset(big, 'x', sizeof big);
    bst_frames_init(&f, 64);
    assert_int_equal(bst_frames_feed(&f, big, 64), BST_OK);
    assert_null(bst_frames_next(&f, &n));
    assert_int_equal(bst_frames_feed(&f, big, 1), BST_E_RANGE);
    bst_frames_fini(&f);
    /* Many short ones at once are not a long one. */
    memset(big, '\n', sizeof big);
    bst_frames_init(&f, 64);
    assert_int_equal(bst_frames_feed(&f, big, sizeof big), BST_OK);
    for (size_t i = 0; i < sizeof big; i++)
        assert_non_null(bst_frames_next(&f, &n));
    assert_null(bst_frames_next(&f, &n));
    assert_false(bst_frames_partial(&f));
    bst_frames_fini(&f);
}

/* What has been handed on is not held: many lines need no more room than one. */
static void room_does_not_grow_with_the_stream(void **state)
{
    struct bst_frames f;
    struct bst_rng rng;
    size_t n;
    (void)state;
    bst_rng_init(&rng, 7, BST_RNG_TEST, 0);
    bst_frames_init(&f, 1000);
    for (int i = 0; i < 20000; i++) {
        char some[900];
        size_t len = bst_rng_below(&rng, sizeof some);
        memset(some, 'y', len);
        some[len] = '\n';
        assert_int_equal(bst_frames_feed(&f, some, len + 1), BST_OK);
        assert_non_null(bst_frames_next(&f, &n));
        assert_int_equal(n, len);
    }
    assert_true(f.room <= 2048);
    bst_frames_fini(&f);
}

static void requests_are_read(void **state)
{
    struct bst_request r;
    const char *line = "{\"op\":\"command\",\"id\":7,\"text\":\"batch +20%\",\"dry\":true}";
    (void)state;
    assert_int_equal(bst_request_parse(line, strlen(line), &r), BST_OK);
    assert_int_equal(r.op, BST_REQUEST_COMMAND);
    assert_int_equal(r.id, 7);
    assert_string_equal(r.text, "batch +20%");
    assert_true(r.dry);
    line = "{\"op\":\"lease\",\"take\":true,\"on\":false}";
    assert_int_equal(bst_request_parse(line, strlen(line), &r), BST_OK);
    assert_true(r.on);
    line = "{\"op\":\"arm\",\"take\":true,\"on\":false}";
    assert_int_equal(bst_request_parse(line, strlen(line), &r), BST_OK);
    assert_false(r.on);
    line = "{\"op\":\"hello\",\"client\":\"console\",\"user\":\"a\\u001b[2Jb\",\"version\":1,"
           "\"readonly\":true}";
    assert_int_equal(bst_request_parse(line, strlen(line), &r), BST_OK);
    assert_true(r.readonly && r.version == 1);
    assert_null(strchr(r.user, '\x1b'));
}

static void other_requests_are_refused(void **state)
{
    static const char *const lines[] = {
        "",
        "x",
        "{",
        "[]",
        "1",
        "null",
        "{}",
        "{\"op\":1}",
        "{\"op\":\"nosuch\"}",
        "{\"op\":\"status\",\"op\":\"status\"}",
        "{\"op\":\"status\"} x",
        "{\"op\":\"sta\\u0000tus\"}",
    };
    struct bst_request r;
    char big[600] = "{\"op\":\"command\",\"text\":\"";
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_int_equal(bst_request_parse(lines[i], strlen(lines[i]), &r), BST_E_PARSE);
    size_t n = strlen(big);
    memset(big + n, 'x', 256);
    strcpy(big + n + 256, "\"}");
    assert_int_equal(bst_request_parse(big, strlen(big), &r), BST_E_RANGE);
    strcpy(big + n + 255, "\"}");
    assert_int_equal(bst_request_parse(big, strlen(big), &r), BST_OK);
}

/* Numbers that no field can hold leave it as it was. */
static void absurd_numbers_do_no_harm(void **state)
{
    static const char *const ids[] = {"-1",    "1e300", "1.5e3", "9223372036854775807",
                                      "\"7\"", "null",  "{}"};
    static const uint64_t want[] = {0, 0, 1500, 9223372036854775807u, 0, 0, 0};
    (void)state;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        char line[200];
        struct bst_request r;
        int n = snprintf(line, sizeof line, "{\"op\":\"status\",\"id\":%s}", ids[i]);
        assert_int_equal(bst_request_parse(line, (size_t)n, &r), BST_OK);
        assert_int_equal(r.id, want[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_do_not_depend_on_the_pieces),
        cmocka_unit_test(a_line_past_the_cap_is_refused),
        cmocka_unit_test(room_does_not_grow_with_the_stream),
        cmocka_unit_test(requests_are_read),
        cmocka_unit_test(other_requests_are_refused),
        cmocka_unit_test(absurd_numbers_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
