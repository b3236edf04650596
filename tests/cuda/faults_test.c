/* cuda.faults: one injected failure at a time in a short run on two virtual devices, and what
 * becomes of the run.                        test_cuda_faults cuda EVERY CYCLES [FIRST [late]]
 *
 * The table is (class of failure) x (call that can have it) x (device) x (which of its calls);
 * every EVERYth cell is tried, from number FIRST (0) on. Each has to come to the verdict of its
 * class (core/tune/fault.h):
 *   retry, drop   the state is what it was before the step, and the same step then goes through
 *   restart       what answers is given back, and a new process goes on from the last snapshot
 *   stop          the same, on another device
 * and in each the run's last state is, bit for bit, that of the run without a failure; nothing
 * leaks; nothing takes longer than 30 s. Memory runs out at the start and at a change of the batch
 * alone: an update asks for none.
 * With "late" the updates are sent one behind another and taken two later: of those that were on
 * their way all up to one have happened, with the numbers that they have without a failure, and
 * none behind it; what rank 0 has is the state behind that one, as long as its device answers.
 * Then CYCLES times a batch that the device has no room for is asked for, refused, and an update
 * made: memory must not grow. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/tune/fault.h"
#include "tests/fakes/fake.h"
#include "tests/unit/train_support.h"

enum {
    RANKS = 2,
    CALLS = 192,
    STEPS = 8,
    SNAPSHOT = 2, /* steps done when it is taken */
    CELL_SECONDS_MOST = 30,
};
/* Where nothing hangs, a machine that does much else must not make it seem so. */
#define WAIT_SECONDS 20.0
#define WAIT_SECONDS_HUNG 1.0
#define MEMORY ((size_t)16 << 20)

enum group { /* of calls */
             ALLOCATE = 1 << 0,
             CUDA = 1 << 1,    /* the runtime's other calls */
             STREAM = 1 << 2,  /* of it those that put work on a stream, and kernels */
             RELEASE = 1 << 3, /* that give something back */
             CUDNN = 1 << 4,
             CUBLAS = 1 << 5,
             NCCL = 1 << 6,
             COLLECTIVE = 1 << 7, /* of it */
             CAPTURE = 1 << 8,    /* of CUDA: what a capture begins or ends with */
};

struct class
{
    const char *what; /* as fake_fail_set() has it */
    unsigned groups;
    enum bst_err err;
    enum bst_fault_verdict verdict;
};

static const struct class classes[] = {
    {"2", ALLOCATE, BST_E_NOMEM, BST_FAULT_RETRY},
    {"701", CUDA | STREAM, BST_E_LIBRARY, BST_FAULT_DROP},
    {"304", CUDA | STREAM, BST_E_LIBRARY, BST_FAULT_DROP},
    {"4000", CUDNN, BST_E_LIBRARY, BST_FAULT_DROP},
    {"14", CUBLAS, BST_E_LIBRARY, BST_FAULT_DROP},
    {"2", NCCL, BST_E_LIBRARY, BST_FAULT_DROP},
    {"3", NCCL, BST_E_LIBRARY, BST_FAULT_DROP},
    {"late=2", COLLECTIVE, BST_E_LIBRARY, BST_FAULT_DROP},
    {"late=6", COLLECTIVE, BST_E_LIBRARY, BST_FAULT_DROP},
    {"hang", COLLECTIVE, BST_E_LIBRARY, BST_FAULT_DROP},
    {"700", ALLOCATE | CUDA | STREAM | RELEASE, BST_E_CONTEXT, BST_FAULT_RESTART},
    {"719", ALLOCATE | CUDA | STREAM, BST_E_CONTEXT, BST_FAULT_RESTART},
    {"late=700", STREAM, BST_E_CONTEXT, BST_FAULT_RESTART},
    {"late=716", STREAM, BST_E_CONTEXT, BST_FAULT_RESTART},
    {"hang", STREAM, BST_E_CONTEXT, BST_FAULT_RESTART},
    {"214", ALLOCATE | CUDA | STREAM, BST_E_DEVICE, BST_FAULT_STOP},
    {"late=220", STREAM, BST_E_DEVICE, BST_FAULT_STOP},
    {"lost", ALLOCATE | CUDA | STREAM | RELEASE, BST_E_DEVICE, BST_FAULT_STOP},
};
enum { N_CLASSES = sizeof classes / sizeof *classes };

static unsigned group_of(const char *call)
{
    static const struct {
        const char *begin;
        unsigned groups;
    } known[] = {
        {"cudaMalloc", ALLOCATE},
        {"cudaHostAlloc", ALLOCATE},
        {"cudaFree", RELEASE},
        {"cudaEventDestroy", RELEASE},
        {"cudaStreamDestroy", RELEASE},
        {"cudaMemcpyAsync", STREAM},
        {"cudaMemsetAsync", STREAM},
        /* An answer to somebody who has no use for a failure. */
        {"cudaGetLastError", 0},
        {"cudaPeekAtLastError", 0},
        {"cudaGetDeviceProperties", 0},
        {"cudaGetError", 0},
        {"cudaGetDeviceCount", 0}, /* asks no device */
        {"cudaStreamBeginCapture", CUDA | CAPTURE},
        {"cudaStreamEndCapture", CUDA | CAPTURE},
        {"cudaGraphInstantiate", CUDA | CAPTURE},
        {"cudaEventElapsedTime", 0},
        {"cuda", CUDA},
        {"bst_", STREAM},
        /* Plans are tried one after the other. */
        {"cudnnBackendFinalize.plan", 0},
        {"cudnnBackendFinalize.heuristics", 0},
        {"cudnn", CUDNN},
        {"cublas", CUBLAS},
        {"ncclAllReduce", NCCL | COLLECTIVE},
        {"ncclBroadcast", NCCL | COLLECTIVE},
        {"nccl", NCCL},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strncmp(call, known[i].begin, strlen(known[i].begin)))
            return known[i].groups;
    return 0;
}

/* --- the run --- */

static struct {
    uint32_t hash[STEPS + 1]; /* after that many steps */
    char weights[96], momenta[96], folder[64];
} whole;

static void machine(const char *fail)
{
    struct fake_settings s;

    fake_settings_env(&s);
    s.devices = RANKS;
    for (int i = 0; i < FAKE_DEVICES_MAX; i++)
        s.mem_bytes[i] = MEMORY;
    s.hang_ms = 20000;
    s.quiet = true;
    s.leaks = false;
    snprintf(s.fail, sizeof s.fail, "%s", fail);
    fake_reset(&s);
}

static enum bst_err open_run(double wait_seconds, struct bst_trainer **t)
{
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, "cuda");

    cfg.ranks = RANKS;
    cfg.wait_seconds = wait_seconds;
    cfg.capture = true;
    return bst_trainer_open(&cfg, t);
}

static enum bst_err update(struct bst_trainer *t, uint64_t first, int64_t batch, int k)
{
    struct bst_update_req req = train_req(first, batch, k);
    struct bst_update_result r;

    req.max_grad_norm = 0.5;
    return bst_trainer_update(t, &req, NULL, &r);
}

static enum bst_err step(struct bst_trainer *t, int i)
{
    struct bst_eval_result e;
    uint32_t hash;

    switch (i) {
    case 0:
        return update(t, 0, 12, 1);
    case 1:
        return update(t, 12, 12, 1);
    case 2:
        return bst_trainer_set_split(t, 18, 2, NULL);
    case 3:
        return update(t, 24, 18, 2);
    case 4:
        return bst_trainer_eval_some(t, NULL, &e);
    case 5:
        return bst_trainer_hold(t);
    case 6:
        return update(t, 42, 18, 2);
    default: /* what a checkpoint reads */
        return bst_trainer_hash(t, &hash);
    }
}

/* --- the same, with updates on their way --- */

enum {
    LATE_UPDATES = 9,
    LATE_SPLIT = 5, /* another one from this update on */
    LATE_MORE = 2,  /* behind the last, see play_on() */
    LATE_ALL = LATE_UPDATES + LATE_MORE,
};

static struct {
    uint32_t hash[LATE_ALL + 1];
    struct bst_update_result res[LATE_ALL];
} late_whole;

static bool is_late;

static struct bst_update_req late_req(int i)
{
    const bool other = i >= LATE_SPLIT;
    struct bst_update_req req =
        train_req(other ? 12 * LATE_SPLIT + 18 * (uint64_t)(i - LATE_SPLIT) : 12 * (uint64_t)i,
                  other ? 18 : 12, other ? 2 : 1);

    req.max_grad_norm = 0.5;
    return req;
}

/* A result with numbers that are not those of the whole run. */
static bool is_wrong(const struct bst_update_result *r, int i)
{
    const struct bst_update_result *want = &late_whole.res[i];

    return r->grad_norm != want->grad_norm || r->skipped || (!r->alone && r->loss != want->loss);
}

struct play {
    int done; /* updates taken */
    bool wrong;
};

static enum bst_err take_one(struct bst_trainer *t, struct play *p)
{
    struct bst_update_result r;

    BST_TRY(bst_trainer_take(t, &r));
    p->wrong |= is_wrong(&r, p->done++);
    return BST_OK;
}

/* As a session does it. */
static enum bst_err play(struct bst_trainer *t, struct play *p)
{
    char text[512];

    while (p->done < LATE_UPDATES) {
        const int next = p->done + bst_trainer_sent(t);
        const bool full = bst_trainer_sent(t) > bst_trainer_late(t);
        if (full || next == LATE_UPDATES || (next == LATE_SPLIT && bst_trainer_sent(t))) {
            BST_TRY(take_one(t, p));
            continue;
        }
        const struct bst_update_req req = late_req(next);
        const enum bst_err err = bst_trainer_send(t, &req, NULL);
        if (!err)
            continue;
        snprintf(text, sizeof text, "%s", bst_err_text());
        while (bst_trainer_sent(t))
            BST_TRY(take_one(t, p));
        return bst_fail(err, "%s", text);
    }
    return BST_OK;
}

static void run_late_whole(void)
{
    struct bst_trainer *t = NULL;

    machine("");
    ok(open_run(WAIT_SECONDS, &t));
    for (int i = 0; i <= LATE_ALL; i++) {
        const struct bst_update_req req = late_req(i);
        late_whole.hash[i] = train_hash(t);
        if (i < LATE_ALL)
            ok(bst_trainer_update(t, &req, NULL, &late_whole.res[i]));
    }
    bst_trainer_close(t);
}

/* Which calls a run makes, and how often. */
static int census(struct fake_call_count *calls)
{
    struct bst_trainer *t = NULL;

    machine("");
    ok(open_run(WAIT_SECONDS, &t));
    if (is_late)
        ok(play(t, &(struct play){0}));
    for (int i = 0; i < STEPS && !is_late; i++)
        ok(step(t, i));
    bst_trainer_close(t);
    return fake_calls_get(calls, CALLS);
}

static bool run_whole(void)
{
    struct bst_trainer *t = NULL;

    snprintf(whole.folder, sizeof whole.folder, "/tmp/bstune-faults-XXXXXX");
    if (!mkdtemp(whole.folder))
        return false;
    snprintf(whole.weights, sizeof whole.weights, "%s/w.safetensors", whole.folder);
    snprintf(whole.momenta, sizeof whole.momenta, "%s/m.safetensors", whole.folder);
    machine("");
    ok(open_run(WAIT_SECONDS, &t));
    for (int i = 0; i <= STEPS; i++) {
        whole.hash[i] = train_hash(t);
        if (i == SNAPSHOT) {
            ok(bst_trainer_save(t, BST_STATE_WEIGHTS, whole.weights));
            ok(bst_trainer_save(t, BST_STATE_OPTIMIZER, whole.momenta));
        }
        if (i < STEPS)
            ok(step(t, i));
    }
    bst_trainer_close(t);
    return fake_leaks() == 0;
}

/* --- one cell --- */

struct cell {
    const struct class *class;
    char call[64];
    int device;
    unsigned long nth;
    bool may_leak; /* a device that hangs keeps what it has */
    bool
        is_unmet; /* the call was not made that often this time: waits look as often as they like */
    char why[600];
};

static bool bad(struct cell *c, const char *what, int step)
{
    snprintf(c->why, sizeof c->why, "%s (step %d; %s)", what, step, bst_err_text());
    return false;
}

/* A new process on devices that are well, from `done` steps on. */
static bool goes_on(struct cell *c, bool from_snapshot)
{
    struct bst_trainer *t = NULL;
    char note[200];
    int i = 0;

    machine("");
    if (open_run(WAIT_SECONDS, &t))
        return bad(c, "cannot be opened again", -1);
    if (from_snapshot) {
        ok(bst_trainer_load(t, BST_STATE_WEIGHTS, whole.weights, false, note, sizeof note));
        ok(bst_trainer_load(t, BST_STATE_OPTIMIZER, whole.momenta, false, note, sizeof note));
        i = SNAPSHOT;
    }
    for (; i < STEPS; i++)
        if (step(t, i))
            return bad(c, "the run after a restart fails", i);
    const bool same = train_hash(t) == whole.hash[STEPS];
    bst_trainer_close(t);
    return same || bad(c, "the run after a restart ends elsewhere", STEPS);
}

static bool judge(struct cell *c, enum bst_err err, int i)
{
    const struct bst_fault_rule *rule = bst_fault_rule(err);

    if (err != c->class->err || !rule || rule->verdict != c->class->verdict)
        return bad(c, bst_err_name(err), i);
    if (!bst_diag_find((int)rule->code))
        return bad(c, "a verdict without a diagnostic", i);
    return true;
}

static bool closes(struct cell *c, struct bst_trainer *t, int i)
{
    bst_trainer_close(t);
    return c->may_leak || !fake_leaks() || bad(c, "something is left alive", i);
}

/* After step i has failed. *again: it may be taken again, in this process. */
static bool after_failure(struct cell *c, struct bst_trainer *t, enum bst_err err, int i,
                          bool *again)
{
    *again = false;
    if (!judge(c, err, i))
        return false;
    const bool here = c->class->verdict == BST_FAULT_RETRY || c->class->verdict == BST_FAULT_DROP;
    if (c->class->verdict == BST_FAULT_RETRY && !bst_trainer_intact(t))
        return bad(c, "out of memory with the state in two parts", i);
    if (!here || !bst_trainer_intact(t))
        return true;
    *again = true;
    return train_hash(t) == whole.hash[i] || bad(c, "the step that failed has moved something", i);
}

/* A plan that cannot be made gives way to the next one, a stretch that cannot be captured to its
 * instructions one by one. */
static bool may_pass(const struct cell *c)
{
    return group_of(c->call) & (CUDNN | CAPTURE) || fake_hits_captured() > 0;
}

static bool run_steps(struct cell *c, struct bst_trainer *t)
{
    bool failed = false, again = false;

    for (int i = 0; i < STEPS; i += !again) {
        const enum bst_err err = step(t, i);
        if (err && failed)
            return bad(c, "one failure, two errors", i);
        if (err && !after_failure(c, t, err, i, &again))
            return false;
        if (err && !again)
            return closes(c, t, i) && goes_on(c, i >= SNAPSHOT);
        failed |= err != BST_OK;
        again = err != BST_OK;
    }
    const bool met = fake_hits() > 0;
    if (met && !failed && !may_pass(c))
        return bad(c, "went unnoticed", STEPS);
    /* From here on the run only closes. */
    if (met && train_hash(t) != whole.hash[STEPS])
        return bad(c, "the run ends elsewhere", STEPS);
    if (!closes(c, t, STEPS))
        return false;
    c->is_unmet = fake_hits() == 0;
    return true;
}

static enum bst_err one_more(struct bst_trainer *t, struct play *p)
{
    const struct bst_update_req req = late_req(p->done);

    BST_TRY(bst_trainer_send(t, &req, NULL));
    return take_one(t, p);
}

/* What failed behind a result is said by the next update. The failure may come behind that one's
 * result, too: how often a rank looks whether its device is ready is chance. */
static enum bst_err play_on(struct bst_trainer *t, struct play *p)
{
    BST_TRY(play(t, p));
    BST_TRY(one_more(t, p));
    return fake_hits() > 0 ? one_more(t, p) : BST_OK;
}

/* Where a look at an event fails by itself, the device is asked again with the whole queue; a
 * result that is there then has lost nothing. */
static bool is_asked_again(const struct cell *c)
{
    return c->class->verdict == BST_FAULT_DROP && !strcmp(c->call, "cudaEventQuery");
}

static bool passes(struct cell *c, struct bst_trainer *t, const struct play *p)
{
    const bool met = fake_hits() > 0;

    if (met && !may_pass(c) && !is_asked_again(c))
        return bad(c, "went unnoticed", p->done);
    if (met && train_hash(t) != late_whole.hash[p->done])
        return bad(c, "the run ends elsewhere", p->done);
    return closes(c, t, p->done);
}

static bool run_late(struct cell *c, struct bst_trainer *t)
{
    struct play p = {0};
    const enum bst_err err = play_on(t, &p);

    c->is_unmet = fake_hits() == 0;
    if (p.wrong)
        return bad(c, "a result is not that of its update", p.done);
    if (!err)
        return passes(c, t, &p);
    if (!judge(c, err, p.done))
        return false;
    if (!bst_trainer_intact(t))
        return closes(c, t, p.done);
    if (train_hash(t) != late_whole.hash[p.done])
        return bad(c, "the state is not that behind the last result", p.done);
    if (c->class->verdict != BST_FAULT_RETRY && c->class->verdict != BST_FAULT_DROP)
        return closes(c, t, p.done);
    /* What looks at all ranks finds rank 0's state in each, though no update was sent since. */
    if (bst_trainer_compare_ranks(t))
        return bad(c, "ranks differ behind the failure", p.done);
    if (play(t, &p))
        return bad(c, "one failure, two errors", p.done);
    if (p.wrong)
        return bad(c, "a result behind the failure is not that of its update", p.done);
    if (train_hash(t) != late_whole.hash[p.done] || bst_trainer_compare_ranks(t))
        return bad(c, "the run ends elsewhere", p.done);
    return closes(c, t, p.done);
}

static bool run_cell(struct cell *c)
{
    struct bst_trainer *t = NULL;
    char rule[160];
    const bool hangs = !strcmp(c->class->what, "hang");

    c->may_leak = hangs && c->class->err == BST_E_CONTEXT;
    snprintf(rule, sizeof rule, "%s@%d:%lu:%s", c->call, c->device, c->nth, c->class->what);
    machine(rule);
    const enum bst_err err = open_run(hangs ? WAIT_SECONDS_HUNG : WAIT_SECONDS, &t);
    if (!err)
        return is_late ? run_late(c, t) : run_steps(c, t);
    if (!judge(c, err, -1))
        return false;
    if (!c->may_leak && fake_leaks())
        return bad(c, "something is left alive", -1);
    return goes_on(c, false);
}

/* --- the table --- */

static bool try_cell(struct cell *c, int number)
{
    const double start = bst_clock_now();

    alarm(2 * CELL_SECONDS_MOST);
    const bool good = run_cell(c);
    alarm(0);
    const double seconds = bst_clock_now() - start;
    if (good && seconds < CELL_SECONDS_MOST)
        return true;
    printf("cell %d, %s@%d:%lu:%s: %s, %.1f s\n", number, c->call, c->device, c->nth,
           c->class->what, good ? "too long" : c->why, seconds);
    return false;
}

struct tally {
    int number, n_tried, n_unmet, n_failed;
};

static void cells_of(const struct class *class, const struct fake_call_count *call, int every,
                     int first, struct tally *t)
{
    for (int d = 0; d < RANKS; d++) {
        const unsigned long n = call->n[d], nth[] = {1, 2, n / 2, n > 1 ? n - 1 : 0, n};
        for (size_t k = 0; k < sizeof nth / sizeof *nth; k++) {
            bool known = nth[k] < 1 || nth[k] > n;
            for (size_t j = 0; j < k; j++)
                known |= nth[j] == nth[k];
            const int number = t->number;
            t->number += !known;
            if (known || number < first || (number - first) % every)
                continue;
            struct cell c = {.class = class, .device = d, .nth = nth[k]};
            snprintf(c.call, sizeof c.call, "%s", call->name);
            t->n_failed += !try_cell(&c, number);
            t->n_unmet += c.is_unmet;
            t->n_tried++;
        }
    }
}

static int table(int every, int first)
{
    static struct fake_call_count calls[CALLS];
    const int n_calls = census(calls);
    struct tally t = {0};

    for (int k = 0; k < N_CLASSES; k++)
        for (int i = 0; i < n_calls; i++)
            if (group_of(calls[i].name) & classes[k].groups)
                cells_of(&classes[k], &calls[i], every, first, &t);
    printf("%d cells of %d tried, %d failure(s), %d not met\n", t.n_tried, t.number, t.n_failed,
           t.n_unmet);
    return t.n_failed + (t.number < 1000) + (t.n_unmet > t.n_tried / 20);
}

/* --- out of memory --- */

static unsigned long n_allocations(void)
{
    static struct fake_call_count calls[CALLS];
    const int n_calls = fake_calls_get(calls, CALLS);
    unsigned long n = 0;

    for (int i = 0; i < n_calls; i++)
        for (int d = 0; d < RANKS && group_of(calls[i].name) & ALLOCATE; d++)
            n += calls[i].n[d];
    return n;
}

/* Not even the first one, in which a failure would find one rank further than another. */
static int updates_take_no_memory(void)
{
    struct bst_trainer *t = NULL;

    machine("");
    ok(open_run(WAIT_SECONDS, &t));
    ok(bst_trainer_set_split(t, 18, 2, NULL));
    const unsigned long before = n_allocations();
    for (int i = 0; i < 3; i++)
        ok(update(t, 18 * (uint64_t)i, 18, 2));
    const unsigned long n = n_allocations() - before;
    bst_trainer_close(t);
    if (n)
        printf("%lu allocations in three updates\n", n);
    return n != 0;
}

static long resident_pages(void)
{
    long all = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    if (!f || fscanf(f, "%ld %ld", &all, &resident) != 2)
        resident = -1;
    if (f)
        fclose(f);
    return resident;
}

static int out_of_memory(int cycles)
{
    struct bst_train_cfg cfg = train_cfg(&train_bn_net, "cuda");
    struct bst_trainer *t;
    struct fake_counts before, after;
    enum { TOO_MUCH = 20000, GROWTH_PAGES = 256 };
    long pages = 0;
    int failures = 0;

    machine("");
    cfg.ranks = RANKS;
    cfg.memory_per_rank = (uint64_t)1 << 40; /* so that the device refuses it, not the plan */
    t = train_open(&cfg);
    ok(update(t, 0, 12, 1));
    uint32_t hash = train_hash(t);
    for (int i = 0; i < cycles && !failures; i++) {
        const enum bst_err err = bst_trainer_set_split(t, TOO_MUCH, 1, NULL);
        failures += err != BST_E_NOMEM || bst_trainer_batch(t) != 12;
        if (failures)
            printf("cycle %d: %s, %s\n", i, bst_err_name(err), bst_err_text());
        if (i % 50 == 0) {
            failures += train_hash(t) != hash;
            ok(update(t, 12, 12, 1));
            hash = train_hash(t);
        }
        if (i == cycles / 10) {
            pages = resident_pages();
            fake_counts_get(&before);
        }
    }
    fake_counts_get(&after);
    const long grown = resident_pages() - pages;
    const bool same = !memcmp(before.alive, after.alive, sizeof before.alive) &&
                      !memcmp(before.device_bytes, after.device_bytes, sizeof before.device_bytes);
    printf("%d times out of memory: %ld pages more, devices %s\n", cycles, grown,
           same ? "as before" : "hold more");
    bst_trainer_close(t);
    return failures + !same + (grown > GROWTH_PAGES) + (fake_leaks() != 0);
}

int main(int argc, char **argv)
{
    const int every = argc > 2 ? atoi(argv[2]) : 1, cycles = argc > 3 ? atoi(argv[3]) : 100,
              first = argc > 4 ? atoi(argv[4]) : 0;

    is_late = argc > 5 && !strcmp(argv[5], "late");
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (every < 1 || cycles < 10 || first < 0)
        return 2;
    int failures = !run_whole();
    run_late_whole();
    failures += updates_take_no_memory();
    failures += table(every, first);
    failures += is_late ? 0 : out_of_memory(cycles);
    unlink(whole.weights);
    unlink(whole.momenta);
    rmdir(whole.folder);
    return failures ? 1 : 0;
}
