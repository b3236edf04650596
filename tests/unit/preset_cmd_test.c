#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "nets/nets.h"
#include "tui/preset_cmd.h"

static char *out_text, *err_text;
static size_t n_out, n_err;

/* Runs `line`, split at blanks (~ stands for one within a word). */
static int run(const char *line)
{
    char copy[512], *argv[16];
    int argc = 0;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) {
        for (char *p = word; *p; p++)
            *p = *p == '~' ? ' ' : *p;
        argv[argc++] = word;
    }
    free(out_text);
    free(err_text);
    FILE *out = open_memstream(&out_text, &n_out), *err = open_memstream(&err_text, &n_err);
    int code = tui_preset_cmd(argc, argv, &net_table, out, err);
    fclose(out);
    fclose(err);
    return code;
}

static void list_names_them_all(void **state)
{
    (void)state;
    assert_int_equal(run("list"), 0);
    assert_non_null(
        strstr(out_text, "quickstart               Quickstart                 ResNet-8 on"));
    assert_non_null(
        strstr(out_text, "a100x4-ddp-2048          A100×4 DDP 2048            ResNet-50 on"));
    assert_int_equal(run("list --json"), 0);
    assert_int_equal(out_text[0], '[');
    assert_non_null(strstr(out_text, "\"id\":\"finetune-tail\""));
    assert_non_null(strstr(out_text, "\"errors\":0"));
}

static void show_is_resolved(void **state)
{
    (void)state;
    assert_int_equal(run("show A100x4~DDP~2048 --set momentum=0.8 --set=model.width=8"), 0);
    assert_non_null(strstr(out_text, "name: \"A100×4 DDP 2048\"\n"));
    assert_non_null(strstr(out_text, "\nmomentum: 0.8\n"));
    assert_non_null(strstr(out_text, "\n  width: 8\n"));
    assert_non_null(strstr(out_text, "\nlr_scheduler: linear\n"));
    assert_int_equal(run("show quickstart --set momentum=8"), 2);
    assert_string_equal(
        err_text, "--set momentum=8: error: momentum: '8' is not a number from 0 to below 1\n");
    assert_string_equal(out_text, "");
}

static void check_passes_what_is_shipped(void **state)
{
    (void)state;
    assert_int_equal(run("check"), 0);
    assert_string_equal(err_text, "");
    int lines = 0;
    for (const char *p = out_text; *p; p++)
        lines += *p == '\n';
    assert_int_equal(lines, 14);
}

static void check_finds_problems(void **state)
{
    (void)state;
    assert_int_equal(run("check quickstart resnet50-256 --set warmup_epochs=200"), 3);
    assert_non_null(
        strstr(err_text, "--set warmup_epochs=200: error: warmup_epochs: a warm-up of 200"));
    assert_int_equal(run("check nothing"), 2);
    assert_int_equal(run("check /dev/zero /nosuch.yaml /tmp/"), 2);
    assert_string_equal(err_text, "/dev/zero: error: is a device, not a file\n"
                                  "/nosuch.yaml: error: No such file or directory\n"
                                  "/tmp/: error: is a folder, not a file\n");
    assert_int_equal(run("check nothing quickstart --set seed=-1"), 2);
    assert_int_equal(run("check quickstart --set lr_groups=[{match:~'layer4*'}]"), 3);
    assert_string_equal(
        err_text,
        "--set lr_groups=[{match: 'layer4*'}]: error: lr_groups: no parameter of resnet8 is called "
        "'layer4*'\n");
    char name[] = "/tmp/bst-preset-XXXXXX.yaml";
    int fd = mkstemps(name, 5);
    static const char groups[] = "lr_groups:\n  - {match: \"fc.*\"}\n"
                                 "  - {factor: 0.1, match: \"layer9.*\"}\nseed: -1\n";
    assert_true(fd >= 0 && write(fd, groups, sizeof groups - 1) == sizeof groups - 1);
    close(fd);
    char line[80], want[400];
    snprintf(line, sizeof line, "check %s", name);
    snprintf(want, sizeof want,
             "%s:3:26: error: lr_groups: no parameter of resnet8 is called 'layer9.*'\n"
             "%s:4:7: error: seed: '-1' is not a whole number from 0 to 9007199254740992\n",
             name, name);
    assert_int_equal(run(line), 3);
    unlink(name);
    assert_string_equal(err_text, want);
    assert_int_equal(run("check quickstart --set model.name=resnet9"), 3);
    assert_non_null(strstr(err_text, "did you mean 'resnet8'?"));
    assert_int_equal(run("check quickstart --set devices.backend=nope"), 3);
}

static void diff_marks_live_and_fixed(void **state)
{
    (void)state;
    assert_int_equal(run("diff resnet50-256 resnet50-384"), 0);
    assert_string_equal(out_text, "live   global_batch_size            256 → 384\n");
    assert_int_equal(run("diff quickstart quickstart"), 0);
    assert_string_equal(out_text, "");
    assert_int_equal(run("diff resnet50-256 a100x4-ddp-2048 --json"), 0);
    assert_non_null(strstr(out_text, "{\"key\":\"devices.count\",\"old\":\"1\",\"new\":\"4\","
                                     "\"kind\":\"fixed\"}"));
    assert_int_equal(run("diff quickstart nothing"), 2);
}

static void usage_is_told(void **state)
{
    (void)state;
    assert_int_equal(run(""), 2);
    assert_non_null(strstr(err_text, "usage: bstune preset list"));
    assert_int_equal(run("lst"), 2);
    assert_int_equal(run("show"), 2);
    assert_non_null(strstr(err_text, "bstune preset show: needs the name of a preset\n"));
    assert_int_equal(run("show a b"), 2);
    assert_int_equal(run("show --nope a"), 2);
    assert_non_null(strstr(err_text, "unknown option --nope\n"));
    assert_int_equal(run("show a --set"), 2);
    assert_int_equal(run("diff a"), 2);
    assert_int_equal(run("list --set a=b"), 2);
}

int main(void)
{
    setenv("BSTUNE_PRESET_DIR", "presets", 1);
    unsetenv("XDG_CONFIG_HOME");
    unsetenv("HOME");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(list_names_them_all),          cmocka_unit_test(show_is_resolved),
        cmocka_unit_test(check_passes_what_is_shipped), cmocka_unit_test(check_finds_problems),
        cmocka_unit_test(diff_marks_live_and_fixed),    cmocka_unit_test(usage_is_told),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(out_text);
    free(err_text);
    return failed;
}
