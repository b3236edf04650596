#include "tui/keys.h"
#include "tui/study.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void every_key_is_bound_once(void **state)
{
    (void)state;
    for (int i = 0; i < TUI_N_REQUESTS; i++) {
        const char *s = tui_keys[i].keys;
        assert_true(*s);
        while (*s) {
            int key = tui_key_parse(&s);
            if (key < 0)
                fail_msg("%s: `%s` is not a key", tui_keys[i].name, tui_keys[i].keys);
            if ((int)tui_key_request(key) != i)
                fail_msg("%s and %s share a key", tui_keys[i].name,
                         tui_keys[tui_key_request(key)].name);
        }
    }
}

static void every_key_of_a_sweep_is_bound_once(void **state)
{
    int seen[64], n = 0;
    (void)state;
    for (int i = 0; i < TUI_STUDY_N_REQUESTS; i++) {
        const char *s = tui_study_keys[i].keys;
        assert_true(*s);
        while (*s) {
            int key = tui_key_parse(&s);
            assert_true(key >= 0 && n < 64);
            for (int k = 0; k < n; k++)
                if (seen[k] == key)
                    fail_msg("`%s` holds a key twice", tui_study_keys[i].keys);
            seen[n++] = key;
        }
    }
}

static void every_key_has_its_line(void **state)
{
    (void)state;
    for (int i = 0; i < TUI_N_REQUESTS; i++) {
        assert_true(strlen(tui_keys[i].help) > 3);
        assert_null(strchr(tui_keys[i].help, '\n'));
        /* Help is read at 80 columns: 78 less the keys. */
        assert_true(strlen(tui_keys[i].help) <= 60);
        assert_true(tui_keys[i].group < TUI_N_GROUPS);
    }
}

static void changes_are_refused_to_onlookers(void **state)
{
    (void)state;
    for (int i = 0; i < TUI_N_REQUESTS; i++)
        if (tui_keys[i].group == TUI_GROUP_CHANGE && i != TUI_REQ_DROP)
            assert_true(tui_keys[i].flags & TUI_KEY_MUTATES);
}

static void names_are_read(void **state)
{
    (void)state;
    const char *s = "+ <Esc> ^L <Space> < <PageDown>";
    assert_int_equal(tui_key_parse(&s), '+');
    assert_int_equal(tui_key_parse(&s), TUI_KEY_ESC);
    assert_int_equal(tui_key_parse(&s), 12);
    assert_int_equal(tui_key_parse(&s), ' ');
    assert_int_equal(tui_key_parse(&s), '<');
    assert_int_equal(tui_key_parse(&s), TUI_KEY_PAGE_DOWN);
    assert_int_equal(*s, '\0');
    s = "<Nonsense>";
    assert_int_equal(tui_key_parse(&s), -1);
    s = "";
    assert_int_equal(tui_key_parse(&s), -1);
    s = "é";
    assert_int_equal(tui_key_parse(&s), 0xE9);
}

/* The settled meanings: another project's habits must not creep in by a typo. */
static void the_usual_keys_mean_the_usual(void **state)
{
    (void)state;
    assert_int_equal(tui_key_request('+'), TUI_REQ_BATCH_UP);
    assert_int_equal(tui_key_request('='), TUI_REQ_BATCH_UP);
    assert_int_equal(tui_key_request('-'), TUI_REQ_BATCH_DOWN);
    assert_int_equal(tui_key_request('y'), TUI_REQ_APPLY);
    assert_int_equal(tui_key_request(TUI_KEY_ESC), TUI_REQ_DROP);
    assert_int_equal(tui_key_request('q'), TUI_REQ_LEAVE);
    assert_int_equal(tui_key_request(3), TUI_REQ_LEAVE);
    assert_int_equal(tui_key_request('Q'), TUI_REQ_STOP);
    assert_int_equal(tui_key_request(TUI_KEY_ENTER), TUI_REQ_MAXIMISE);
    assert_int_equal(tui_key_request(0x263A), TUI_REQ_NONE);
    assert_int_equal(tui_key_request(0), TUI_REQ_NONE);
}

static enum tui_request named(const char *name)
{
    enum tui_request req = tui_request_by_name(name);
    assert_true(req != TUI_REQ_NONE);
    return req;
}

static void keys_are_bound_otherwise(void **state)
{
    enum tui_request which[2];
    char first[16];
    (void)state;
    assert_int_equal(named("batch-up"), TUI_REQ_BATCH_UP);
    assert_int_equal(tui_request_by_name("BATCH_UP"), TUI_REQ_NONE);
    assert_int_equal(tui_keys_bind(TUI_REQ_APPLY, "u <F5>"), BST_OK);
    assert_int_equal(tui_key_request('u'), TUI_REQ_APPLY);
    assert_int_equal(tui_key_request(TUI_KEY_F5), TUI_REQ_APPLY);
    assert_int_equal(tui_key_request('y'), TUI_REQ_NONE);
    tui_key_first(TUI_REQ_APPLY, first, sizeof first);
    assert_string_equal(first, "u");
    assert_int_equal(tui_keys_bind(TUI_REQ_LOG, "none"), BST_OK);
    assert_int_equal(tui_key_request('l'), TUI_REQ_NONE);
    assert_string_equal(tui_keys_of(TUI_REQ_LOG), "");
    assert_int_equal(tui_keys_check(which), BST_OK);
    /* A key that another has by the table. */
    assert_int_equal(tui_keys_bind(TUI_REQ_LOG, "g"), BST_OK);
    assert_int_equal(tui_keys_check(which), BST_E_EXISTS);
    assert_int_equal(which[0], TUI_REQ_GRADIENT);
    assert_int_equal(which[1], TUI_REQ_LOG);
    assert_string_equal(bst_err_text(), "g is a key of gradient and of log");
    tui_keys_reset();
    assert_int_equal(tui_keys_check(which), BST_OK);
    assert_int_equal(tui_key_request('y'), TUI_REQ_APPLY);
    assert_int_equal(tui_key_request('l'), TUI_REQ_LOG);
}

static void what_is_no_key_is_not_bound(void **state)
{
    static const char *const bad[] = {"ab", "x yz", "<Nonsense>", "<Mouse>", "<Paste>", "none x"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (!tui_keys_bind(TUI_REQ_SAVE, bad[i]))
            fail_msg("`%s` was bound", bad[i]);
    tui_keys_reset();
}

static void every_name_is_its_own(void **state)
{
    (void)state;
    for (int i = 0; i < TUI_N_REQUESTS; i++) {
        char name[32];
        tui_request_name((enum tui_request)i, name);
        assert_int_equal(tui_request_by_name(name), i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_is_bound_once),
        cmocka_unit_test(every_key_of_a_sweep_is_bound_once),
        cmocka_unit_test(every_key_has_its_line),
        cmocka_unit_test(changes_are_refused_to_onlookers),
        cmocka_unit_test(names_are_read),
        cmocka_unit_test(the_usual_keys_mean_the_usual),
        cmocka_unit_test(keys_are_bound_otherwise),
        cmocka_unit_test(what_is_no_key_is_not_bound),
        cmocka_unit_test(every_name_is_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
