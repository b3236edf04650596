/* The processes of a run as threads, over an MPI that is a fake: what is left behind where one is
 * lost, and in which order they go. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/log.h"
#include "core/comm/cluster.h"
#include "tests/unit/fake_mpi.h"

enum { MOST = 3, LONG = 2 * FAKE_MPI_SHORT };

struct process {
    int process;
    struct bst_cluster *c;
    void (*then)(struct process *p);
    enum bst_err err;
    char text[300];
    int others_aborted; /* by when it goes */
    pthread_t thread;
};

static void *process_main(void *arg)
{
    struct process *p = arg;

    fake_mpi_here(p->process);
    p->err = bst_cluster_open(&p->c);
    if (!p->err)
        p->then(p);
    return NULL;
}

static void run(struct process *p, int n, void (*then)(struct process *p))
{
    fake_mpi_world(n);
    for (int i = 0; i < n; i++) {
        p[i] = (struct process){.process = i, .then = then};
        assert_int_equal(pthread_create(&p[i].thread, NULL, process_main, &p[i]), 0);
    }
    for (int i = 0; i < n; i++)
        pthread_join(p[i].thread, NULL);
}

/* Its last error, which is the thread's. */
static void keep(struct process *p, enum bst_err err)
{
    p->err = err;
    snprintf(p->text, sizeof p->text, "%s", err ? bst_err_text() : "");
}

static void meet_and_part(struct process *p)
{
    int all[MOST] = {0}, word = p->process ? 0 : 4711;
    const int mine = 10 + p->process;

    p->err = bst_cluster_gather(p->c, &mine, all, sizeof mine);
    for (int i = 0; i < MOST && !p->err; i++)
        p->err = all[i] == 10 + i ? BST_OK : BST_E_CORRUPT;
    if (!p->err)
        p->err = p->process ? bst_cluster_hear(p->c, &word, sizeof word)
                            : bst_cluster_tell(p->c, &word, sizeof word);
    if (!p->err && word != 4711)
        p->err = BST_E_CORRUPT;
    bst_cluster_close(p->c, 0);
}

static void all_meet_and_part(void **state)
{
    struct process p[MOST];

    (void)state;
    run(p, MOST, meet_and_part);
    for (int i = 0; i < MOST; i++) {
        assert_int_equal(p[i].err, BST_OK);
        assert_int_equal(fake_mpi_aborted(i), 0);
    }
}

/* --- memory --- */

static void nothing(struct process *p)
{
    (void)p;
}

static void meet_again(struct process *p)
{
    int mine = 0, all[2];

    bst_cluster_set_wait(p->c, 0.02);
    keep(p, bst_cluster_gather(p->c, &mine, all, sizeof mine));
}

/* From the return of a call on, memory is the caller's again, also when the message is not over. */
static void what_was_given_up_is_written_to_no_more(void **state)
{
    struct process p[2];
    int mine = 5, all[2] = {1, 2};

    (void)state;
    run(p, 2, nothing);
    bst_cluster_set_wait(p[0].c, 0.02);
    assert_int_equal(bst_cluster_gather(p[0].c, &mine, all, sizeof mine), BST_E_PEER);
    assert_int_equal(fake_mpi_scribble(0), sizeof all); /* it was on its way still */
    assert_int_equal(all[0], 1);
    assert_int_equal(all[1], 2);
    /* Until the other has come to it after all. */
    assert_true(bst_cluster_owes(p[0].c));
    meet_again(&p[1]);
    assert_int_equal(p[1].err, BST_OK);
    assert_false(bst_cluster_owes(p[0].c));
    for (int i = 0; i < 2; i++)
        bst_cluster_close(p[i].c, 0);
}

/* Blocks of the ring are the caller's, who has to ask. */
static void a_block_on_its_way_is_owed(void **state)
{
    static char block[LONG], there[LONG];
    struct process p[2];

    (void)state;
    run(p, 2, nothing);
    bst_cluster_set_wait(p[0].c, 0.02);
    memset(block, 7, sizeof block);
    int out = bst_cluster_send(p[0].c, block, sizeof block, 1);
    int in = bst_cluster_receive(p[0].c, there, sizeof there, 1);
    assert_false(bst_cluster_owes(p[0].c)); /* nobody is lost */
    assert_int_equal(bst_cluster_end(p[0].c, in), BST_E_PEER);
    assert_int_equal(fake_mpi_scribble(0), sizeof there);
    /* What was to come is taken back, what is to go is not. */
    assert_true(bst_cluster_owes(p[0].c));
    assert_int_equal(fake_mpi_scribble(0), 0);
    in = bst_cluster_receive(p[1].c, there, sizeof there, 0);
    assert_int_equal(bst_cluster_end(p[1].c, in), BST_OK);
    assert_memory_equal(there, block, sizeof block);
    assert_false(bst_cluster_owes(p[0].c));
    (void)out;
    for (int i = 0; i < 2; i++)
        bst_cluster_close(p[i].c, 0);
}

/* --- who goes first --- */

/* Process 1 waits for the others in vain; process 0 learns of it in the middle of something else,
 * and does then what it has to. */
static void go(struct process *p)
{
    int mine = 0, all[2];

    bst_cluster_busy(p->c, true);
    bst_cluster_set_wait(p->c, 0.02);
    if (p->process) {
        keep(p, bst_cluster_gather(p->c, &mine, all, sizeof mine));
    } else {
        while (!p->err && !fake_mpi_aborted(1)) {
            sched_yield();
            keep(p, bst_cluster_check(p->c));
        }
        p->others_aborted = fake_mpi_aborted(1);
    }
    bst_cluster_close(p->c, 1);
}

static void process_0_goes_before_those_that_follow(void **state)
{
    struct process p[2];

    (void)state;
    run(p, 2, go);
    assert_int_equal(p[0].err, BST_E_PEER);
    assert_string_equal(p[0].text,
                        "process 1 has left this run: no answer from the other processes for 0 s");
    assert_int_equal(p[0].others_aborted, 0);
    assert_int_equal(p[1].err, BST_E_PEER);
    assert_int_equal(fake_mpi_aborted(0), 1);
    assert_int_equal(fake_mpi_aborted(1), 2);
}

static void a_process_0_that_is_gone_is_not_waited_for(void **state)
{
    struct process p[2];

    (void)state;
    run(p, 2, nothing);
    bst_cluster_busy(p[1].c, true);
    bst_cluster_close(p[0].c, 0);
    bst_cluster_close(p[1].c, 1);
    assert_int_equal(fake_mpi_aborted(0), 0);
    assert_int_equal(fake_mpi_aborted(1), 1);
}

static void quiet(void *arg, enum bst_log_level level, const char *line)
{
    (void)arg;
    (void)level;
    (void)line;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_meet_and_part),
        cmocka_unit_test(what_was_given_up_is_written_to_no_more),
        cmocka_unit_test(a_block_on_its_way_is_owed),
        cmocka_unit_test(process_0_goes_before_those_that_follow),
        cmocka_unit_test(a_process_0_that_is_gone_is_not_waited_for),
    };

    bst_log_to(quiet, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
