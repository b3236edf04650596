#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tui/cli.h"

static struct tui_cli cli;
static char *said;
static char copy[512], *words[32];

static int parse(const char *line)
{
    int n = 0;
    size_t bytes;
    snprintf(copy, sizeof copy, "bstune %s", line);
    for (char *w = strtok(copy, " "); w; w = strtok(NULL, " "))
        words[n++] = w;
    words[n] = NULL;
    free(said);
    FILE *err = open_memstream(&said, &bytes);
    int code = tui_cli_parse(n, words, &cli, err);
    fclose(err);
    return code;
}

static void run_takes_its_options_anywhere(void **state)
{
    (void)state;
    assert_int_equal(
        parse("run --set a=1 quickstart -s b=2 --set=c=3 --headless --run-dir=x -i w.st"), 0);
    assert_int_equal(cli.verb, TUI_VERB_RUN);
    assert_int_equal(cli.n_operands, 1);
    assert_string_equal(cli.operands[0], "quickstart");
    assert_int_equal(cli.n_sets, 3);
    assert_string_equal(cli.sets[0], "a=1");
    assert_string_equal(cli.sets[1], "b=2");
    assert_string_equal(cli.sets[2], "c=3");
    assert_non_null(cli.option[TUI_OPTION_HEADLESS]);
    assert_string_equal(cli.option[TUI_OPTION_RUN_DIR], "x");
    assert_string_equal(cli.option[TUI_OPTION_INIT], "w.st");
    assert_null(cli.option[TUI_OPTION_RESUME]);
    assert_int_equal(parse("run --color=never -U x"), 0);
    assert_string_equal(cli.option[TUI_OPTION_COLOR], "never");
    assert_int_equal(parse("run -- --odd"), 0);
    assert_string_equal(cli.operands[0], "--odd");
}

static void ctl_takes_signs_and_the_commands_own_switches(void **state)
{
    (void)state;
    assert_int_equal(parse("ctl RUN batch -20%"), 0);
    assert_int_equal(cli.n_operands, 3);
    assert_string_equal(cli.operands[2], "-20%");
    assert_int_equal(parse("ctl batch -- -20%"), 0);
    assert_int_equal(cli.n_operands, 2);
    assert_int_equal(parse("ctl -n RUN warmup +1ep --jump --json"), 0);
    assert_int_equal(cli.n_operands, 4);
    assert_string_equal(cli.operands[3], "--jump");
    assert_non_null(cli.option[TUI_OPTION_DRY_RUN]);
    assert_non_null(cli.option[TUI_OPTION_JSON]);
    assert_int_equal(parse("ctl --set a=b"), 2);
    assert_string_equal(said,
                        "bstune ctl: an option of 'bstune run': --set\nTry 'bstune ctl --help'.\n");
}

static void preset_gets_the_rest_unread(void **state)
{
    (void)state;
    assert_int_equal(parse("preset show x --set a=b"), 0);
    assert_int_equal(cli.verb, TUI_VERB_PRESET);
    assert_int_equal(cli.n_rest, 4);
    assert_string_equal(cli.rest[0], "show");
    assert_int_equal(parse("preset --help"), 0);
    assert_int_equal(cli.verb, TUI_VERB_HELP);
    assert_int_equal(cli.about, TUI_VERB_PRESET);
}

static void help_and_version(void **state)
{
    (void)state;
    assert_int_equal(parse("--help"), 0);
    assert_true(cli.verb == TUI_VERB_HELP && cli.about == TUI_N_VERBS);
    assert_int_equal(parse("help ctl"), 0);
    assert_true(cli.verb == TUI_VERB_HELP && cli.about == TUI_VERB_CTL);
    assert_int_equal(parse("run -h"), 0);
    assert_true(cli.verb == TUI_VERB_HELP && cli.about == TUI_VERB_RUN);
    assert_int_equal(parse("-V"), 0);
    assert_int_equal(cli.verb, TUI_VERB_VERSION);
    for (int v = 0; v <= TUI_N_VERBS; v++) {
        char *text;
        size_t n;
        FILE *out = open_memstream(&text, &n);
        tui_cli_help((enum tui_verb)v, out);
        fclose(out);
        assert_int_equal(strncmp(text, "usage: bstune ", 14), 0);
        for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
            size_t length = strcspn(line, "\n");
            assert_true(length <= 80);
            assert_true(!length || line[length - 1] != ' ');
        }
        /* Of all verbs each has its first sentence, whole. */
        if (v == TUI_N_VERBS)
            assert_true(strstr(text, "report.html") && strstr(text, "config.yaml"));
        free(text);
    }
}

static void refusals_say_what_and_where_to_look(void **state)
{
    (void)state;
    static const struct {
        const char *line, *said;
    } rows[] = {
        {"rnu x", "bstune: unknown command: rnu; did you mean 'run'?\nTry 'bstune --help'.\n"},
        {"zzzzzz", "bstune: unknown command: zzzzzz\nTry 'bstune --help'.\n"},
        {"batch +20%",
         "bstune: unknown command: batch; did you mean 'ctl batch'?\nTry 'bstune --help'.\n"},
        {"--zz", "bstune: unknown option: --zz\nTry 'bstune --help'.\n"},
        {"help zzzzzz", "bstune: unknown command: zzzzzz\nTry 'bstune --help'.\n"},
        {"run a b", "bstune run: one argument too many: b\nTry 'bstune run --help'.\n"},
        {"run a --set", "bstune run: needs an argument: --set\nTry 'bstune run --help'.\n"},
        {"run a --headles", "bstune run: unknown option: --headles\nTry 'bstune run --help'.\n"},
        {"run a --headless=1",
         "bstune run: takes no argument: --headless\nTry 'bstune run --help'.\n"},
        {"run a --color=red",
         "bstune run: --color is auto|always|never, not red\nTry 'bstune run --help'.\n"},
        {"run a --color=al",
         "bstune run: --color is auto|always|never, not al\nTry 'bstune run --help'.\n"},
        {"list --\033[2J", "bstune list: unknown option: --\\x1b[2J\nTry 'bstune list --help'.\n"},
        {"list x", "bstune list: one argument too many: x\nTry 'bstune list --help'.\n"},
        {"attach -j",
         "bstune attach: an option of 'bstune list': -j\nTry 'bstune attach --help'.\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(parse(rows[i].line), 2);
        assert_string_equal(said, rows[i].said);
    }
    assert_int_equal(parse(""), 2);
    assert_int_equal(strncmp(said, "usage: bstune COMMAND", 21), 0);
}

/* Two options of one verb must not share a letter, and a letter must not be -h or -V. */
static void letters_are_unique(void **state)
{
    (void)state;
    for (int a = 0; a < TUI_N_OPTIONS; a++) {
        const struct tui_option_info *x = tui_option_at((enum tui_option)a);
        assert_true(x->letter != 'h' && x->letter != 'V' && x->verbs);
        for (int b = a + 1; b < TUI_N_OPTIONS; b++) {
            const struct tui_option_info *y = tui_option_at((enum tui_option)b);
            assert_true(strcmp(x->name, y->name) != 0);
            assert_false(x->letter && x->letter == y->letter && (x->verbs & y->verbs));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_takes_its_options_anywhere),
        cmocka_unit_test(ctl_takes_signs_and_the_commands_own_switches),
        cmocka_unit_test(preset_gets_the_rest_unread),
        cmocka_unit_test(help_and_version),
        cmocka_unit_test(refusals_say_what_and_where_to_look),
        cmocka_unit_test(letters_are_unique),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(said);
    return failed;
}
