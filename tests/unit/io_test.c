#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/alloc.h"
#include "core/base/io.h"

static char folder[] = "/tmp/bst-io-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return bst_io_remove_tree(folder) || bst_io_exists(folder) ? -1 : 0;
}

/* A path in the folder; good until the fourth call after. */
static const char *in(const char *name)
{
    static char path[4][256];
    static int next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof path[next], "%s/%s", folder, name);
    return path[next];
}

static void must_hold(const char *path, const char *want)
{
    char *data;
    size_t n;
    if (bst_io_read_file(path, 1 << 20, &data, &n))
        fail_msg("%s", bst_err_text());
    assert_int_equal(n, strlen(want));
    assert_string_equal(data, want);
    bst_free(data);
}

static void a_file_is_replaced_whole(void **state)
{
    (void)state;
    assert_int_equal(bst_io_replace_file(in("a"), "one", 3), BST_OK);
    must_hold(in("a"), "one");
    assert_int_equal(bst_io_replace_file(in("a"), "second", 6), BST_OK);
    must_hold(in("a"), "second");
    assert_int_equal(bst_io_replace_file(in("a"), "", 0), BST_OK);
    must_hold(in("a"), "");
}

/* The old file stays and no temporary is left, whatever the write ends with. */
static void a_failed_replacement_changes_nothing(void **state)
{
    (void)state;
    assert_int_equal(bst_io_replace_file(in("kept"), "old", 3), BST_OK);
    struct rlimit was, small = {10, 10};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    signal(SIGXFSZ, SIG_IGN);
    small.rlim_max = was.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    enum bst_err err = bst_io_replace_file(in("kept"), "much longer than ten bytes", 26);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(err, BST_E_IO);
    assert_non_null(strstr(bst_err_text(), strerror(EFBIG)));
    must_hold(in("kept"), "old");
    char temp[300];
    for (int i = 0; i < 20; i++) {
        snprintf(temp, sizeof temp, "%s.tmp-%ld-%d", in("kept"), (long)getpid(), i);
        assert_false(bst_io_exists(temp));
    }
    assert_int_equal(bst_io_replace_file(in("no/folder"), "x", 1), BST_E_IO);
}

static void links_are_not_written_through(void **state)
{
    (void)state;
    assert_int_equal(bst_io_replace_file(in("victim"), "safe", 4), BST_OK);
    assert_int_equal(symlink(in("victim"), in("link")), 0);
    int fd;
    assert_int_equal(bst_io_open_write(in("link"), O_TRUNC, 0600, &fd), BST_E_IO);
    must_hold(in("victim"), "safe");
    /* A replacement takes the link's place and leaves what it pointed at. */
    assert_int_equal(bst_io_replace_file(in("link"), "new", 3), BST_OK);
    must_hold(in("victim"), "safe");
    struct stat st;
    assert_int_equal(lstat(in("link"), &st), 0);
    assert_true(S_ISREG(st.st_mode));
}

static void opened_files_are_not_inherited(void **state)
{
    (void)state;
    int fd;
    assert_int_equal(bst_io_open_write(in("log"), O_APPEND, 0600, &fd), BST_OK);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(bst_io_write_full(fd, "x", 1, "log"), BST_OK);
    close(fd);
    assert_int_equal(bst_io_open_write(in("log"), O_EXCL, 0600, &fd), BST_E_EXISTS);
}

static void reading_keeps_to_the_cap(void **state)
{
    (void)state;
    char *data;
    size_t n;
    assert_int_equal(bst_io_replace_file(in("ten"), "0123456789", 10), BST_OK);
    assert_int_equal(bst_io_read_file(in("ten"), 10, &data, &n), BST_OK);
    assert_int_equal(n, 10);
    bst_free(data);
    assert_int_equal(bst_io_read_file(in("ten"), 9, &data, &n), BST_E_RANGE);
    assert_null(data);
    assert_int_equal(bst_io_read_file(in("none"), 9, &data, &n), BST_E_NOTFOUND);
    assert_non_null(strstr(bst_err_text(), "/none: No such file"));
    assert_int_equal(bst_io_read_file(folder, 9, &data, &n), BST_E_IO);
    assert_non_null(strstr(bst_err_text(), ": is a folder, not a file"));
    /* opened in the usual way, it would wait for a writer for ever */
    assert_int_equal(mkfifo(in("pipe"), 0600), 0);
    assert_int_equal(bst_io_read_file(in("pipe"), 9, &data, &n), BST_E_IO);
    assert_non_null(strstr(bst_err_text(), "/pipe: is a pipe, not a file"));
    assert_int_equal(bst_io_read_file("/dev/zero", 9, &data, &n), BST_E_IO);
    assert_non_null(strstr(bst_err_text(), "/dev/zero: is a device, not a file"));
    /* a file whose size stat does not know */
    assert_int_equal(bst_io_read_file("/proc/self/status", 1 << 20, &data, &n), BST_OK);
    assert_true(n > 100);
    bst_free(data);
    assert_int_equal(bst_io_read_file("/proc/self/status", 100, &data, &n), BST_E_RANGE);
}

static void big_files_come_back_whole(void **state)
{
    (void)state;
    size_t n = 1000003;
    char *big = bst_xalloc(n), *back;
    for (size_t i = 0; i < n; i++)
        big[i] = (char)(i * 31 >> 3);
    assert_int_equal(bst_io_replace_file(in("big"), big, n), BST_OK);
    size_t got;
    assert_int_equal(bst_io_read_file(in("big"), n, &back, &got), BST_OK);
    assert_int_equal(got, n);
    assert_memory_equal(big, back, n);
    int fd = open(in("big"), O_RDONLY);
    assert_int_equal(bst_io_read_full(fd, back, n, "big"), BST_OK);
    assert_int_equal(bst_io_read_full(fd, back, 1, "big"), BST_E_IO);
    assert_non_null(strstr(bst_err_text(), "ends 1 bytes early"));
    close(fd);
    bst_free(big);
    bst_free(back);
}

static void a_full_device_is_an_error(void **state)
{
    (void)state;
    int fd = open("/dev/full", O_WRONLY);
    assert_int_equal(bst_io_write_full(fd, "x", 1, "metrics.jsonl"), BST_E_IO);
    assert_string_equal(bst_err_text(), "metrics.jsonl: No space left on device");
    close(fd);
}

static void folders_are_made_and_removed(void **state)
{
    (void)state;
    assert_int_equal(bst_io_make_dirs(in("p/q//r/"), 0700), BST_OK);
    assert_int_equal(bst_io_make_dirs(in("p/q"), 0700), BST_OK);
    assert_int_equal(bst_io_replace_file(in("p/q/file"), "x", 1), BST_OK);
    assert_int_equal(bst_io_make_dirs(in("p/q/file/under"), 0700), BST_E_IO);
    assert_int_equal(bst_io_make_dirs(in("p/q/file"), 0700), BST_E_IO);
    assert_non_null(strstr(bst_err_text(), "Not a directory"));
    /* a link in the tree is removed, not followed */
    assert_int_equal(bst_io_make_dirs(in("outside"), 0700), BST_OK);
    assert_int_equal(bst_io_replace_file(in("outside/stays"), "x", 1), BST_OK);
    assert_int_equal(symlink(in("outside"), in("p/q/link")), 0);
    assert_int_equal(bst_io_remove_tree(in("p")), BST_OK);
    assert_false(bst_io_exists(in("p")));
    assert_true(bst_io_exists(in("outside/stays")));
    assert_int_equal(bst_io_remove_tree(in("p")), BST_OK); /* gone already */
    assert_int_equal(bst_io_sync_dir(in("outside")), BST_OK);
    assert_int_equal(bst_io_sync_dir(in("outside/stays")), BST_E_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_replaced_whole),
        cmocka_unit_test(a_failed_replacement_changes_nothing),
        cmocka_unit_test(links_are_not_written_through),
        cmocka_unit_test(opened_files_are_not_inherited),
        cmocka_unit_test(reading_keeps_to_the_cap),
        cmocka_unit_test(big_files_come_back_whole),
        cmocka_unit_test(a_full_device_is_an_error),
        cmocka_unit_test(folders_are_made_and_removed),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
