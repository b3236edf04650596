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
            bool anywhere = false;
            for (int v = 0; v < TUI_N_KEY_VIEWS; v++) {
                enum tui_key_view view = (enum tui_key_view)v;
                if (!tui_keys_in(view, (enum tui_request)i))
                    continue;
                anywhere = true;
                if ((int)tui_key_request(view, key) != i)
                    fail_msg("%s and %s share a key", tui_keys[i].name,
                             tui_keys[tui_key_request(view, key)].name);
            }
            assert_true(anywhere);
        }
    }
}

static void a_sweep_answers_to_its_own(void **state)
{
    int n = 0;
    (void)state;
    for (int i = 0; i < tui_n_study_keys; i++) {
        assert_true(tui_keys_in(TUI_KEYS_SWEEP, tui_study_keys[i].req));
        assert_true(strlen(tui_study_keys[i].help) > 3);
        /* Read at 80 columns, behind the keys. */
        assert_true(strlen(tui_study_keys[i].help) <= 65);
    }
    for (int i = 0; i < TUI_N_REQUESTS; i++)
        n += tui_keys_in(TUI_KEYS_SWEEP, (enum tui_request)i);
    assert_int_equal(n, tui_n_study_keys);
    assert_int_equal(tui_key_request(TUI_KEYS_SWEEP, TUI_KEY_ENTER), TUI_REQ_OPEN);
    assert_int_equal(tui_key_request(TUI_KEYS_SWEEP, 'm'), TUI_REQ_CURVE);
    assert_int_equal(tui_key_request(TUI_KEYS_SWEEP, 'Q'), TUI_REQ_STOP);
    assert_int_equal(tui_key_request(TUI_KEYS_SWEEP, '+'), TUI_REQ_NONE);
    assert_int_equal(tui_key_request(TUI_KEYS_CONSOLE, 'm'), TUI_REQ_SMOOTH);
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
    assert_int_equal(tui_key_request(TUI_KEYS_CONSOLE, '+'), TUI_REQ_BATCH_UP);
    assert_int_equal(tui_key_request(TUI_KEYS_CONSOLE, '='), TUI_REQ_BATCH_UP);
    assert_int_equal(tui_key_request(TUI_KEYS_CONSOLE, '-'), TUI_REQ_BATCH_DOWN);
    assert_int_equal(tui_key_request(TUI_KEYS_CONSOLE, 'y'), TUI_REQ_APPLY);
    assert_int_equal(tui_key_request(TUI_KEYS_CONSOLE, TUI_KEY_ESC), TUI_REQ_DROP);
    assert_int_equal(tui_key_request(TUI_KEYS_CONSOLE, 'q'), TUI_REQ_LEAVE);
    assert_int_equal(tui_key_request(TUI_KEYS_CONSOLE, 3), TUI_REQ_LEAVE);
    assert_int_equal(tui_key_request(TUI_KEYS_CONSOLE, 'Q'), TUI_REQ_STOP);
    assert_int_equal(tui_key_request(TUI_KEYS_CONSOLE, TUI_KEY_ENTER), TUI_REQ_MAXIMISE);
    assert_int_equal(tui_key_request(TUI_KEYS_CONSOLE, 0x263A), TUI_REQ_NONE);
    assert_int_equal(tui_key_request(TUI_KEYS_CONSOLE, 0), TUI_REQ_NONE);
}

static enum tui_request named(const char *name)
{
    enum tui_request req = tui_request_by_name(name);
    assert_true(req != TUI_REQ_NONE);
    return req;
}

static void keys_are_bound_otherwise(void **state)
{
    struct tui_key_clash clash[8];
    char first[16];
    (void)state;
    assert_int_equal(named("batch-up"), TUI_REQ_BATCH_UP);
    assert_int_equal(tui_request_by_name("BATCH_UP"), TUI_REQ_NONE);
    assert_int_equal(tui_keys_bind(TUI_REQ_APPLY, "u <F5>"), BST_OK);
    assert_int_equal(tui_key_request(TUI_KEYS_CONSOLE, 'u'), TUI_REQ_APPLY);
    assert_int_equal(tui_key_request(TUI_KEYS_CONSOLE, TUI_KEY_F5), TUI_REQ_APPLY);
    assert_int_equal(tui_key_request(TUI_KEYS_CONSOLE, 'y'), TUI_REQ_NONE);
    tui_key_first(TUI_REQ_APPLY, first, sizeof first);
    assert_string_equal(first, "u");
    assert_int_equal(tui_keys_bind(TUI_REQ_LOG, "none"), BST_OK);
    assert_int_equal(tui_key_request(TUI_KEYS_CONSOLE, 'l'), TUI_REQ_NONE);
    assert_string_equal(tui_keys_of(TUI_REQ_LOG), "");
    assert_int_equal(tui_keys_clashes(clash, 8), 0);
    /* Keys that others have by the table. */
    assert_int_equal(tui_keys_bind(TUI_REQ_LOG, "g <Tab>"), BST_OK);
    assert_int_equal(tui_keys_clashes(clash, 8), 2);
    assert_int_equal(clash[0].which[0], TUI_REQ_GRADIENT);
    assert_int_equal(clash[0].which[1], TUI_REQ_LOG);
    assert_string_equal(clash[0].key, "g");
    assert_int_equal(clash[1].which[0], TUI_REQ_PANE_NEXT);
    assert_string_equal(clash[1].key, "<Tab>");
    assert_int_equal(tui_keys_clashes(clash, 1), 2);
    tui_keys_reset();
    assert_int_equal(tui_keys_clashes(clash, 8), 0);
    assert_int_equal(tui_key_request(TUI_KEYS_CONSOLE, 'y'), TUI_REQ_APPLY);
    assert_int_equal(tui_key_request(TUI_KEYS_CONSOLE, 'l'), TUI_REQ_LOG);
}

static void views_share_what_they_share(void **state)
{
    struct tui_key_clash clash[8];
    (void)state;
    /* One binding, both views. */
    assert_int_equal(tui_keys_bind(TUI_REQ_LEAVE, "X"), BST_OK);
    assert_int_equal(tui_key_request(TUI_KEYS_CONSOLE, 'X'), TUI_REQ_LEAVE);
    assert_int_equal(tui_key_request(TUI_KEYS_SWEEP, 'X'), TUI_REQ_LEAVE);
    /* A key of the console alone is free in a sweep's view, but not one of its own. */
    assert_int_equal(tui_keys_bind(TUI_REQ_CURVE, "+"), BST_OK);
    assert_int_equal(tui_keys_clashes(clash, 8), 0);
    assert_int_equal(tui_key_request(TUI_KEYS_SWEEP, '+'), TUI_REQ_CURVE);
    assert_int_equal(tui_key_request(TUI_KEYS_CONSOLE, '+'), TUI_REQ_BATCH_UP);
    assert_int_equal(tui_keys_bind(TUI_REQ_OPEN, "x"), BST_OK);
    assert_int_equal(tui_keys_clashes(clash, 8), 1);
    assert_int_equal(clash[0].which[0], TUI_REQ_XAXIS);
    assert_int_equal(clash[0].which[1], TUI_REQ_OPEN);
    tui_keys_reset();
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
        cmocka_unit_test(a_sweep_answers_to_its_own),
        cmocka_unit_test(every_key_has_its_line),
        cmocka_unit_test(changes_are_refused_to_onlookers),
        cmocka_unit_test(names_are_read),
        cmocka_unit_test(the_usual_keys_mean_the_usual),
        cmocka_unit_test(keys_are_bound_otherwise),
        cmocka_unit_test(views_share_what_they_share),
        cmocka_unit_test(what_is_no_key_is_not_bound),
        cmocka_unit_test(every_name_is_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
