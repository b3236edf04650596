/* Trainers of several processes on the CUDA backend: processes are threads of this program, MPI is
 * a fake (tests/unit/fake_mpi.h), and so are devices and NCCL. What is told to whom, and what a
 * failure on one process does to the others, is the shipped code's. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "core/base/log.h"
#include "core/comm/cluster.h"
#include "tests/fakes/fake.h"
#include "tests/unit/fake_mpi.h"
#include "tests/unit/train_support.h"

enum { UPDATES = 9, SPLIT_AT = 5 /* another one from this update on */, CALLS = 192 };

static void machine(const char *fail, uint64_t seed)
{
    struct fake_settings s;

    fake_settings_env(&s);
    s.devices = FAKE_DEVICES_MAX;
    s.seed = seed;
    s.hang_ms = 20000;
    s.quiet = true;
    s.leaks = false;
    snprintf(s.fail, sizeof s.fail, "%s", fail);
    fake_reset(&s);
}

/* --- a crew --- */

struct crew {
    int n_processes, ranks;
    double wait_seconds; /* 0: 20 */
    bool loses;          /* a process is lost to it */
    /* On process 0. */
    void (*play)(struct crew *crew, struct bst_trainer *t);
    void (*meanwhile)(struct crew *crew); /* NULL: nothing */
    atomic_int taking;                    /* so many were asked to be taken */
    atomic_bool over;                     /* play has returned, or there was nothing to play on */
    uint32_t hash[UPDATES + 1];           /* after so many updates; 0: not asked */
    double norm[UPDATES], loss[UPDATES];
    int done;
    enum bst_err err; /* the one that ended it */
    char text[400];
    bool intact; /* at the end */
    bool failed; /* a call that was to fail did not, or the other way round; text says which */
};

struct member {
    struct crew *crew;
    int process;
    pthread_t thread;
    enum bst_err err;
};

static void note(struct crew *crew, enum bst_err err)
{
    crew->err = err;
    snprintf(crew->text, sizeof crew->text, "%s", err ? bst_err_text() : "");
}

static enum bst_err take_part(struct member *m, struct bst_cluster *c)
{
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, "cuda");
    struct bst_trainer *t = NULL;

    cfg.ranks = m->crew->ranks;
    cfg.wait_seconds = m->crew->wait_seconds > 0 ? m->crew->wait_seconds : 20;
    cfg.capture = true;
    cfg.cluster = c;
    BST_TRY(bst_trainer_open(&cfg, &t));
    enum bst_err err = BST_OK;
    if (m->process)
        err = bst_trainer_follow(t);
    else
        m->crew->play(m->crew, t);
    bst_trainer_close(t);
    return err;
}

static void *member_main(void *arg)
{
    struct member *m = arg;
    struct bst_cluster *c = NULL;

    fake_mpi_here(m->process);
    m->err = bst_cluster_open(&c);
    if (!m->err)
        m->err = take_part(m, c);
    if (!m->process)
        atomic_store(&m->crew->over, true);
    bst_cluster_close(c, 0);
    return NULL;
}

static void run(struct crew *crew)
{
    struct member m[FAKE_MPI_MOST];

    fake_mpi_world(crew->n_processes);
    for (int p = 0; p < crew->n_processes; p++) {
        m[p] = (struct member){.crew = crew, .process = p};
        assert_int_equal(pthread_create(&m[p].thread, NULL, member_main, &m[p]), 0);
    }
    if (crew->meanwhile)
        crew->meanwhile(crew);
    for (int p = 0; p < crew->n_processes; p++)
        pthread_join(m[p].thread, NULL);
    for (int p = 0; p < crew->n_processes; p++)
        assert_int_equal(m[p].err, p && crew->loses ? BST_E_PEER : BST_OK);
    if (crew->failed)
        fail_msg("%s", crew->text);
}

/* --- what it does --- */

static struct bst_update_req req_of(int i)
{
    const bool other = i >= SPLIT_AT;
    struct bst_update_req req =
        train_req(other ? 12 * SPLIT_AT + 18 * (uint64_t)(i - SPLIT_AT) : 12 * (uint64_t)i,
                  other ? 18 : 12, other ? 2 : 1);

    req.max_grad_norm = 0.5;
    return req;
}

static void take_down(struct crew *crew, const struct bst_update_result *r)
{
    crew->norm[crew->done] = r->grad_norm;
    crew->loss[crew->done] = r->alone ? 0 : r->loss;
    crew->done++;
}

/* What fails there is rank 0's affair, which may try again. */
static void hash_now(struct crew *crew, struct bst_trainer *t)
{
    enum bst_err err = bst_trainer_hash(t, &crew->hash[crew->done]);

    if (err && bst_trainer_intact(t))
        err = bst_trainer_hash(t, &crew->hash[crew->done]);
    if (!err)
        return;
    crew->hash[crew->done] = 0;
    if (!crew->err)
        note(crew, err);
}

/* Each waited for, and what state is behind it. */
static void one_by_one(struct crew *crew, struct bst_trainer *t)
{
    struct bst_update_result r;

    hash_now(crew, t);
    while (crew->done < UPDATES) {
        const struct bst_update_req req = req_of(crew->done);
        note(crew, bst_trainer_update(t, &req, NULL, &r));
        if (crew->err)
            return;
        take_down(crew, &r);
        hash_now(crew, t);
    }
}

/* As a session does it: sent ahead, and what is on its way is taken before anything else. */
static enum bst_err ahead_once(struct crew *crew, struct bst_trainer *t)
{
    struct bst_update_result r;
    char text[400];

    while (crew->done < UPDATES) {
        const int next = crew->done + bst_trainer_sent(t);
        const bool full = bst_trainer_sent(t) > bst_trainer_late(t);
        if (full || next == UPDATES || (next == SPLIT_AT && bst_trainer_sent(t))) {
            atomic_store(&crew->taking, crew->done + 1);
            BST_TRY(bst_trainer_take(t, &r));
            take_down(crew, &r);
            continue;
        }
        const struct bst_update_req req = req_of(next);
        const enum bst_err err = bst_trainer_send(t, &req, NULL);
        if (!err)
            continue;
        snprintf(text, sizeof text, "%s", bst_err_text());
        while (bst_trainer_sent(t)) {
            BST_TRY(bst_trainer_take(t, &r));
            take_down(crew, &r);
        }
        return bst_fail(err, "%s", text);
    }
    return BST_OK;
}

/* A failure that leaves the state whole is gone on from. */
static void ahead(struct crew *crew, struct bst_trainer *t)
{
    note(crew, ahead_once(crew, t));
    if (crew->err && bst_trainer_intact(t))
        hash_now(crew, t);
    /* Once more where it is said by the next update, too. */
    for (int i = 0; i < 2 && crew->err == BST_E_LIBRARY && bst_trainer_intact(t); i++)
        note(crew, ahead_once(crew, t));
    if (!crew->err)
        hash_now(crew, t);
    crew->intact = bst_trainer_intact(t);
}

static struct crew whole[2]; /* of one process, with two and with four ranks */

static const struct crew *whole_of(int ranks)
{
    struct crew *w = &whole[ranks > 2];
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, "cuda");

    if (w->done)
        return w;
    machine("", 0);
    cfg.ranks = ranks;
    cfg.capture = true;
    struct bst_trainer *t = train_open(&cfg);
    one_by_one(w, t);
    bst_trainer_close(t);
    assert_int_equal(w->done, UPDATES);
    return w;
}

/* So far as it came. */
static void must_be_as_whole(const struct crew *got, const char *what)
{
    const struct crew *want = whole_of(got->ranks);

    for (int i = 0; i <= got->done; i++)
        if (got->hash[i] && got->hash[i] != want->hash[i])
            fail_msg("%s: the state behind update %d is another", what, i);
    for (int i = 0; i < got->done; i++)
        if (got->norm[i] != want->norm[i] || (got->loss[i] != 0 && got->loss[i] != want->loss[i]))
            fail_msg("%s, update %d: norm %.17g and loss %.17g, in one process %.17g and %.17g",
                     what, i, got->norm[i], got->loss[i], want->norm[i], want->loss[i]);
}

static void the_same_bits_however_ranks_are_spread(void **state)
{
    static void (*const ways[])(struct crew * crew, struct bst_trainer * t) = {one_by_one, ahead};
    static const int spread[][2] = {{2, 2}, {2, 4}, {4, 4}};

    (void)state;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 2; k++) {
            struct crew c = {.n_processes = spread[i][0], .ranks = spread[i][1], .play = ways[k]};
            char what[80];

            whole_of(c.ranks);
            machine("", 0);
            run(&c);
            assert_int_equal(c.err, BST_OK);
            assert_int_equal(c.done, UPDATES);
            snprintf(what, sizeof what, "%d processes, %d ranks, %s", c.n_processes, c.ranks,
                     k ? "ahead" : "one by one");
            must_be_as_whole(&c, what);
            assert_int_equal(fake_leaks(), 0);
        }
}

static void updates_are_sent_ahead(struct crew *crew, struct bst_trainer *t)
{
    crew->failed = bst_trainer_late(t) != BST_UPDATES_LATE;
    snprintf(crew->text, sizeof crew->text, "%d updates are sent ahead", bst_trainer_late(t));
}

static void several_processes_send_ahead_as_one_does(void **state)
{
    struct crew c = {.n_processes = 2, .ranks = 2, .play = updates_are_sent_ahead};

    (void)state;
    machine("", 0);
    run(&c);
}

/* --- failures of process 0 alone --- */

static void must_fail(struct crew *crew, enum bst_err err, const char *what)
{
    if (err)
        return;
    crew->failed = true;
    snprintf(crew->text, sizeof crew->text, "%s did not fail", what);
}

/* A folder that cannot be written to at every checkpoint, a file that is not there. */
static void with_failures(struct crew *crew, struct bst_trainer *t)
{
    struct bst_update_result r;
    char reason[80];

    while (crew->done < UPDATES && !crew->failed) {
        const struct bst_update_req req = req_of(crew->done);
        must_fail(crew, bst_trainer_save(t, BST_STATE_WEIGHTS, "/nowhere/w"), "saving");
        must_fail(
            crew,
            bst_trainer_load(t, BST_STATE_WEIGHTS, "/nowhere/w", false, reason, sizeof reason),
            "loading");
        note(crew, bst_trainer_update(t, &req, NULL, &r));
        if (crew->err)
            return;
        take_down(crew, &r);
        hash_now(crew, t);
    }
}

static unsigned long joins(void)
{
    static struct fake_call_count calls[CALLS];
    const int n = fake_calls_get(calls, CALLS);
    unsigned long all = 0;

    for (int i = 0; i < n; i++)
        for (int d = 0; d < FAKE_DEVICES_MAX && !strcmp(calls[i].name, "ncclCommInitRankConfig");
             d++)
            all += calls[i].n[d];
    return all;
}

static void a_failure_of_process_0_alone_is_nobody_elses(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        struct crew c = {.n_processes = 2, .ranks = ranks, .play = with_failures};

        whole_of(ranks);
        machine("", 0);
        run(&c);
        if (c.err)
            fail_msg("%d ranks: %s", ranks, c.text);
        assert_int_equal(c.done, UPDATES);
        must_be_as_whole(&c, "with failures");
        assert_int_equal(joins(), ranks); /* and nobody's link was made anew for it */
    }
}

/* --- failures of devices, of updates that are sent ahead --- */

struct class
{
    const char *call, *what;
    enum bst_err err;
};

static const struct class classes[] = {
    {"cudaMemcpyAsync", "701", BST_E_LIBRARY},      {"ncclAllReduce", "2", BST_E_LIBRARY},
    {"ncclAllReduce", "late=2", BST_E_LIBRARY},     {"ncclBroadcast", "late=2", BST_E_LIBRARY},
    {"cudaMemcpyAsync", "late=700", BST_E_CONTEXT}, {"cudaStreamWaitEvent", "lost", BST_E_DEVICE},
};
enum { N_CLASSES = sizeof classes / sizeof *classes, PLACES = 4 };

static unsigned long count_of(const struct fake_call_count *calls, int n, const char *name, int d)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(calls[i].name, name))
            return calls[i].n[d];
    return 0;
}

/* On a device since the machine was made. */
static unsigned long calls_made(const char *name, int device)
{
    static struct fake_call_count calls[CALLS];

    return count_of(calls, fake_calls_get(calls, CALLS), name, device);
}

/* The run ends with what the device had, or goes on as if nothing had been. Whether the call was
 * made so often: from run to run there are some more or fewer. */
static bool check_failure(const struct class *class, int device, unsigned long nth, uint64_t seed)
{
    struct crew c = {.n_processes = 2, .ranks = 2, .play = ahead};
    char fail[80];

    snprintf(fail, sizeof fail, "%s@%d:%lu:%s", class->call, device, nth, class->what);
    machine(fail, seed);
    run(&c);
    if (fake_hits() == 0)
        return false;
    /* What cuts a commit in two ends the run, too. */
    const bool goes_on = class->err == BST_E_LIBRARY && c.intact;
    if (goes_on ? c.err != BST_OK || c.done < UPDATES : c.err != class->err)
        fail_msg("%s: after %d updates %s: %s", fail, c.done, bst_err_name(c.err), c.text);
    must_be_as_whole(&c, fail);
    return true;
}

/* One after the other from the middle on, where updates are on their way: so each kind of work that
 * a call is made for has its turn, and in another order of the streams each, on devices that are
 * behind. */
static void a_failure_on_any_process_is_everybodys(void **state)
{
    static struct fake_call_count opened[CALLS], all[CALLS];
    struct crew c = {.n_processes = 2, .ranks = 2, .play = updates_are_sent_ahead};

    (void)state;
    whole_of(2);
    machine("", 0);
    run(&c);
    const int n_opened = fake_calls_get(opened, CALLS);
    c = (struct crew){.n_processes = 2, .ranks = 2, .play = ahead};
    machine("", 0);
    run(&c);
    const int n_all = fake_calls_get(all, CALLS);
    for (int i = 0; i < N_CLASSES; i++)
        for (int device = 0; device < 2; device++) {
            const unsigned long from = count_of(opened, n_opened, classes[i].call, device),
                                to = count_of(all, n_all, classes[i].call, device);
            if (to <= from)
                fail_msg("%s on device %d: %lu calls, %lu of them to open", classes[i].call, device,
                         to, from);
            int met = 0;
            for (int k = 0; k < PLACES; k++)
                met +=
                    check_failure(&classes[i], device, (from + to) / 2 + (unsigned)k, (uint64_t)k);
            if (!met)
                fail_msg("%s:%s on device %d: met in none of %d runs, with %lu to %lu calls",
                         classes[i].call, classes[i].what, device, PLACES, from, to);
        }
}

/* --- what rank 0 has made has happened, on all --- */

enum { WAITED = 2, HELD = 2 };

static void some_on_their_way(struct crew *crew, struct bst_trainer *t)
{
    struct bst_update_result r;

    for (int i = 0; i < WAITED + HELD && !crew->err; i++) {
        const struct bst_update_req req = req_of(i);
        fake_hold(i >= WAITED);
        note(crew,
             i < WAITED ? bst_trainer_update(t, &req, NULL, &r) : bst_trainer_send(t, &req, NULL));
        if (!crew->err && i < WAITED)
            take_down(crew, &r);
    }
    fake_hold(false);
    while (!crew->err && bst_trainer_sent(t)) {
        note(crew, bst_trainer_take(t, &r));
        if (!crew->err)
            take_down(crew, &r);
    }
    if (bst_trainer_intact(t))
        hash_now(crew, t);
    crew->intact = bst_trainer_intact(t);
}

static void waited_for_and_one_more(struct crew *crew, struct bst_trainer *t)
{
    struct bst_update_result r;

    for (int i = 0; i <= WAITED && !crew->err; i++) {
        const struct bst_update_req req = req_of(i);
        note(crew, bst_trainer_update(t, &req, NULL, &r));
    }
}

/* Device 1 is lost with the first update's result on the way back, another one behind it. */
static void an_update_that_rank_0_alone_has_made_counts(void **state)
{
    struct crew c = {.n_processes = 2, .ranks = 2, .play = waited_for_and_one_more};
    char fail[80];

    (void)state;
    whole_of(2);
    machine("", 0);
    run(&c);
    snprintf(fail, sizeof fail, "cudaMemcpyAsync@1:%lu:late=700", calls_made("cudaMemcpyAsync", 1));
    c = (struct crew){.n_processes = 2, .ranks = 2, .play = some_on_their_way};
    machine(fail, 0);
    run(&c);
    assert_int_equal(fake_hits(), 1);
    assert_int_equal(c.err, BST_E_CONTEXT);
    assert_int_equal(c.done, WAITED + 1);
    assert_true(c.loss[WAITED] == 0); /* the other's part of it is not known */
    assert_true(c.intact && c.hash[c.done]);
    must_be_as_whole(&c, fail);
}

/* --- a process that is lost --- */

static atomic_int lifeline_fd; /* of the process that follows */

int __real_connect(int fd, const struct sockaddr *to, socklen_t bytes);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t bytes);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t bytes)
{
    atomic_store(&lifeline_fd, fd);
    return __real_connect(fd, to, bytes);
}

enum { STUCK_AT = 3 }; /* the update whose gradients are never summed up */

/* Its result is being waited for, and nothing else. */
static void cut_the_lifeline(struct crew *crew)
{
    while (atomic_load(&crew->taking) <= STUCK_AT && !atomic_load(&crew->over))
        sched_yield();
    shutdown(atomic_load(&lifeline_fd), SHUT_RDWR);
}

/* Long before devices.timeout, which is longer than this test may take. */
static void whoever_waits_for_a_process_that_is_lost_goes_on(void **state)
{
    struct crew c = {.n_processes = 2, .ranks = 2, .play = updates_are_sent_ahead};
    char fail[80];

    (void)state;
    whole_of(2);
    machine("", 0);
    run(&c);
    snprintf(fail, sizeof fail, "ncclAllReduce@1:%lu:hang",
             calls_made("ncclAllReduce", 1) + STUCK_AT + 1);
    c = (struct crew){.n_processes = 2,
                      .ranks = 2,
                      .wait_seconds = 1000,
                      .loses = true,
                      .play = ahead,
                      .meanwhile = cut_the_lifeline};
    machine(fail, 0);
    run(&c);
    assert_int_equal(c.err, BST_E_PEER);
    assert_string_equal(c.text, "process 1 of this run has ended or cannot be reached any more");
    assert_true(c.intact);
    assert_int_equal(c.done, STUCK_AT);
    assert_true(c.hash[c.done]);
    must_be_as_whole(&c, "without process 1");
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
        cmocka_unit_test(the_same_bits_however_ranks_are_spread),
        cmocka_unit_test(several_processes_send_ahead_as_one_does),
        cmocka_unit_test(a_failure_of_process_0_alone_is_nobody_elses),
        cmocka_unit_test(a_failure_on_any_process_is_everybodys),
        cmocka_unit_test(an_update_that_rank_0_alone_has_made_counts),
        cmocka_unit_test(whoever_waits_for_a_process_that_is_lost_goes_on),
    };

    bst_log_to(quiet, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
