#include "tui/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/base/io.h"
#include "tui/keys.h"

static char folder[] = "/tmp/bst-config-XXXXXX";
static char path[64];

static enum bst_err read_text(const char *text, struct tui_config *out, struct bst_sb *errs)
{
    assert_int_equal(bst_io_replace_file(path, text, strlen(text)), BST_OK);
    bst_sb_clear(errs);
    return tui_config_read(out, errs);
}

static void what_it_says_goes_before_the_defaults(void **state)
{
    struct tui_config c;
    struct bst_sb errs;
    (void)state;
    bst_sb_init(&errs, 4096);
    assert_int_equal(
        read_text("color: never\nsymbols: block\nmouse: true\nbell: false\nrefresh: 2.5\n"
                  "keys:\n  apply: u\n  log: none\n  help: \"? <F1>\"\n",
                  &c, &errs),
        BST_OK);
    assert_true(c.there && c.mouse && !c.bell && !c.ascii);
    assert_int_equal(c.color, TUI_COLOR_NEVER);
    assert_int_equal(c.symbols, TUI_SYMBOLS_BLOCK);
    assert_true(c.refresh == 2.5);
    assert_int_equal(tui_key_request(TUI_KEYS_CONSOLE, 'u'), TUI_REQ_APPLY);
    assert_int_equal(tui_key_request(TUI_KEYS_CONSOLE, 'l'), TUI_REQ_NONE);
    assert_int_equal(tui_key_request(TUI_KEYS_CONSOLE, 'h'), TUI_REQ_NONE);
    /* What an earlier file had bound is not kept. */
    assert_int_equal(read_text("# nothing\n", &c, &errs), BST_OK);
    assert_int_equal(tui_key_request(TUI_KEYS_CONSOLE, 'u'), TUI_REQ_NONE);
    assert_int_equal(tui_key_request(TUI_KEYS_CONSOLE, 'l'), TUI_REQ_LOG);
    assert_int_equal(c.color, TUI_COLOR_AUTO);
    assert_true(c.bell && c.refresh == 1);
    bst_sb_fini(&errs);
}

static void what_is_printed_reads_back(void **state)
{
    struct tui_config c, again;
    struct bst_sb errs, first, second;
    (void)state;
    bst_sb_init(&errs, 4096);
    bst_sb_init(&first, 1 << 16);
    bst_sb_init(&second, 1 << 16);
    assert_int_equal(
        read_text(
            "ascii: true\nrefresh: 0.5\nkeys: {apply: '\"', drop: '\\', log: none, save: '#'}\n",
            &c, &errs),
        BST_OK);
    tui_config_print(&c, &first);
    assert_int_equal(read_text(first.data, &again, &errs), BST_OK);
    tui_config_print(&again, &second);
    assert_string_equal(first.data, second.data);
    assert_int_equal(tui_key_request(TUI_KEYS_CONSOLE, '"'), TUI_REQ_APPLY);
    assert_int_equal(tui_key_request(TUI_KEYS_CONSOLE, '\\'), TUI_REQ_DROP);
    assert_int_equal(tui_key_request(TUI_KEYS_CONSOLE, 'l'), TUI_REQ_NONE);
    bst_sb_fini(&errs);
    bst_sb_fini(&first);
    bst_sb_fini(&second);
}

static const struct {
    const char *text, *lines[3]; /* behind "PATH:" */
} refused[] = {
    {"colour: auto\n", {"1:1: error: unknown key 'colour'; did you mean 'color'?"}},
    {"color: red\n", {"1:8: error: color: 'red' is not auto, always or never"}},
    {"mouse: yes\n", {"1:8: error: mouse: 'yes' is not true or false"}},
    {"refresh: 0.1\n", {"1:10: error: refresh: '0.1' is not a number of seconds from 0.25 to 60"}},
    {"color: [auto]\n", {"1:8: error: color: 'a list' is not auto, always or never"}},
    {"keys: x\n", {"1:7: error: keys: 'x' is not a mapping"}},
    {"keys:\n  batch_up: b\n",
     {"2:3: error: unknown name under keys 'batch_up'; did you mean 'batch-up'?"}},
    {"keys:\n  apply: yy\n", {"2:10: error: keys: apply: no key is written so: yy"}},
    {"keys:\n  log: g\n", {"2:8: error: keys: g is a key of gradient and of log"}},
    {"keys:\n  batch-up: l\n", {"2:13: error: keys: l is a key of batch-up and of log"}},
    /* All at once, by their lines, and no clash with keys that nobody knows. */
    {"keys:\n  log: g\n  smooth: x\ncolor: red\n",
     {"2:8: error: keys: g is a key of gradient and of log\n",
      "3:11: error: keys: x is a key of xaxis and of smooth\n", "4:8: error: color: 'red'"}},
    {"mouse: yes\nkeys:\n  log: g\n",
     {"1:8: error: mouse:", "3:8: error: keys: g is a key of gradient and of log"}},
    {"keys:\n  open: q\n", {"2:9: error: keys: q is a key of open and of leave"}},
    {"keys:\n  apply:\n", {"2:9: error: apply: '' is not keys with blanks between them, or none"}},
    {"mouse: true\nmouse: true\n", {"2:1: error: key 'mouse' is given twice; first on line 1"}},
    {"just text\n", {"1:1: error: this is not `key: value` lines"}},
    {"bell: 1\nascii: 2\nkeys: {nothing: x}\n",
     {"1:7: error: bell:", "2:8: error: ascii:", "3:8: error: unknown name under keys 'nothing'"}},
};

static void every_complaint_has_its_place(void **state)
{
    struct tui_config c;
    struct bst_sb errs;
    (void)state;
    bst_sb_init(&errs, 1 << 16);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if (!read_text(refused[i].text, &c, &errs))
            fail_msg("`%s` was taken", refused[i].text);
        for (int k = 0; k < 3 && refused[i].lines[k]; k++) {
            char line[300];
            snprintf(line, sizeof line, "%s:%s", path, refused[i].lines[k]);
            if (!strstr(errs.data, line))
                fail_msg("`%s`: no `%s` in\n%s", refused[i].text, line, errs.data);
        }
    }
    bst_sb_fini(&errs);
}

static void what_is_not_known_does_not_clash(void **state)
{
    struct tui_config c;
    struct bst_sb errs;
    (void)state;
    bst_sb_init(&errs, 4096);
    /* `y` was to be free: only what it was to be instead is wrong. */
    assert_int_equal(read_text("keys:\n  aply: yy\n  log: y\n", &c, &errs), BST_E_PARSE);
    assert_null(strstr(errs.data, "is a key of"));
    assert_int_equal(read_text("keys:\n  apply: yy\n  log: y\n", &c, &errs), BST_E_PARSE);
    assert_null(strstr(errs.data, "is a key of"));
    assert_int_equal(read_text("keys:\n  apply: u\n  log: y\n", &c, &errs), BST_OK);
    bst_sb_fini(&errs);
}

static void where_it_is_looked_for(void **state)
{
    struct tui_config c;
    struct bst_sb errs;
    char config[64], there[128];
    (void)state;
    bst_sb_init(&errs, 4096);
    setenv("BSTUNE_CONFIG", "", 1);
    assert_int_equal(tui_config_read(&c, &errs), BST_OK);
    assert_string_equal(c.path, "");
    setenv("BSTUNE_CONFIG", "/nonexistent/c.yaml", 1);
    assert_int_equal(tui_config_read(&c, &errs), BST_E_NOTFOUND);
    assert_non_null(strstr(errs.data, "/nonexistent/c.yaml"));
    unsetenv("BSTUNE_CONFIG");
    setenv("XDG_CONFIG_HOME", folder, 1);
    assert_int_equal(tui_config_read(&c, &errs), BST_OK);
    assert_false(c.there);
    snprintf(config, sizeof config, "%s/bstune", folder);
    snprintf(there, sizeof there, "%s/config.yaml", config);
    assert_int_equal(bst_io_make_dirs(config, 0700), BST_OK);
    assert_int_equal(bst_io_replace_file(there, "bell: false\n", 12), BST_OK);
    assert_int_equal(tui_config_read(&c, &errs), BST_OK);
    assert_true(c.there && !c.bell);
    assert_string_equal(c.path, there);
    bst_sb_fini(&errs);
    setenv("BSTUNE_CONFIG", path, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_it_says_goes_before_the_defaults),
        cmocka_unit_test(what_is_printed_reads_back),
        cmocka_unit_test(every_complaint_has_its_place),
        cmocka_unit_test(what_is_not_known_does_not_clash),
        cmocka_unit_test(where_it_is_looked_for),
    };
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/c.yaml", folder);
    setenv("BSTUNE_CONFIG", path, 1);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return bst_io_remove_tree(folder) || failed;
}
