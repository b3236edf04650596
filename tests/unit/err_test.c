#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/err.h"

static void text_is_kept_and_prefixed(void **state)
{
    (void)state;
    assert_int_equal(bst_fail(BST_E_SHAPE, "conv1: %d × %d", 3, 5), BST_E_SHAPE);
    assert_string_equal(bst_err_text(), "conv1: 3 × 5");
    assert_int_equal(bst_fail_in(BST_E_SHAPE, "net %s", "resnet8"), BST_E_SHAPE);
    assert_string_equal(bst_err_text(), "net resnet8: conv1: 3 × 5");
    assert_int_equal(bst_fail(BST_E_ARG, "again: %s", bst_err_text()), BST_E_ARG);
    assert_string_equal(bst_err_text(), "again: net resnet8: conv1: 3 × 5");
}

enum { BIG = 5000 };

static void make_big(char big[BIG])
{
    memset(big, 'x', BIG - 1);
    big[BIG - 1] = '\0';
}

static void long_text_is_cut_not_overrun(void **state)
{
    (void)state;
    char big[BIG];
    make_big(big);
    bst_fail(BST_E_ARG, "%s", big);
    assert_int_equal(strlen(bst_err_text()), 1023);
    bst_fail_in(BST_E_ARG, "front");
    assert_int_equal(strlen(bst_err_text()), 1023);
    assert_int_equal(strncmp(bst_err_text(), "front: xxx", 10), 0);
    bst_fail_in(BST_E_ARG, "%s", big);
    assert_int_equal(strlen(bst_err_text()), 1023);
}

static void a_kept_error_comes_back_whole(void **state)
{
    (void)state;
    char big[BIG];
    make_big(big);
    bst_fail(BST_E_DEVICE, "%s", big);
    const struct bst_failure first = bst_err_keep(BST_E_DEVICE);
    bst_fail(BST_E_IO, "another, %s", "meanwhile");
    assert_int_equal(bst_err_restore(&first), BST_E_DEVICE);
    assert_int_equal(strlen(bst_err_text()), 1023);
    assert_string_equal(bst_err_text(), first.text);

    bst_fail(BST_E_IO, "100 %%s of it");
    const struct bst_failure percent = bst_err_keep(BST_E_IO), none = bst_err_keep(BST_OK);
    bst_fail(BST_E_ARG, "other");
    assert_int_equal(bst_err_restore(&none), BST_OK);
    assert_string_equal(none.text, "");
    assert_string_equal(bst_err_text(), "other");
    assert_int_equal(bst_err_restore(&percent), BST_E_IO);
    assert_string_equal(bst_err_text(), "100 %s of it");
}

static void *other_thread(void *arg)
{
    (void)arg;
    bst_fail(BST_E_IO, "other");
    return NULL;
}

static void each_thread_has_its_text(void **state)
{
    (void)state;
    pthread_t t;
    bst_fail(BST_E_ARG, "mine");
    assert_int_equal(pthread_create(&t, NULL, other_thread, NULL), 0);
    pthread_join(t, NULL);
    assert_string_equal(bst_err_text(), "mine");
}

static void names_are_there(void **state)
{
    (void)state;
    assert_string_equal(bst_err_name(BST_OK), "ok");
    assert_string_equal(bst_err_name(BST_E_LIBRARY), "a library failed");
    assert_string_equal(bst_err_name((enum bst_err)99), "unknown error");
}

static enum bst_err tries(enum bst_err first)
{
    BST_TRY(first);
    return BST_E_EXISTS;
}

static void try_returns_at_once(void **state)
{
    (void)state;
    assert_int_equal(tries(BST_E_IO), BST_E_IO);
    assert_int_equal(tries(BST_OK), BST_E_EXISTS);
}

static void say_hook(void)
{
    ssize_t did = write(STDERR_FILENO, "<hook>", 6);
    (void)did;
}

/* A failing assertion runs the hook before it writes, then ends the process by SIGABRT. */
static void panic_runs_hook_then_aborts(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (!pid) {
        dup2(ends[1], STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        bst_panic_hook(say_hook);
        int three = 3;
        BST_ASSERT(three == 4);
        _exit(0);
    }
    close(ends[1]);
    char said[256] = "";
    size_t len = 0;
    ssize_t did;
    while ((did = read(ends[0], said + len, sizeof said - 1 - len)) > 0)
        len += (size_t)did;
    close(ends[0]);
    int status;
    waitpid(pid, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_int_equal(strncmp(said, "<hook>bstune: bug at ", 21), 0);
    assert_non_null(strstr(said, "assertion failed: three == 4"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_kept_and_prefixed),
        cmocka_unit_test(long_text_is_cut_not_overrun),
        cmocka_unit_test(a_kept_error_comes_back_whole),
        cmocka_unit_test(each_thread_has_its_text),
        cmocka_unit_test(names_are_there),
        cmocka_unit_test(try_returns_at_once),
        cmocka_unit_test(panic_runs_hook_then_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
