#include "core/comm/cluster.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/backend/module.h"
#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/comm/lifeline.h"
#include "core/comm/mpi.h"

#define WAIT_SECONDS 60.0
#define SAVE_SECONDS 300.0 /* for process 0, once it knows that a process is lost */
#define NEEDS "Open MPI (Debian: openmpi-bin) or the MPI that bstune was built with"

enum { TAG_REQUEST = 1, TAG_RING, TAG_NOTICE };
/* Looks at a message that has not come before the processor is left to others; then a nap of a part
 * of what was waited so far, in ns. */
enum { EAGER = 200, NAP_LEAST = 20000, NAP_MOST = 5000000, NAP_PART = 64 };

/* What MPI reads or writes of a small message is the cluster's own: whoever is done waiting has its
 * memory back whatever becomes of the message. */
struct letter {
    struct letter *next;
    char text[];
};

struct bst_cluster {
    const struct bst_mpi *mpi;
    struct bst_cluster_info info;
    struct bst_lifeline *lifeline;
    pthread_mutex_t lock;       /* around every call of mpi */
    struct letter *undelivered; /* under the lock; as long as the process */
    double wait_seconds;
    bool busy;
    atomic_bool lost;
    pthread_mutex_t lost_lock;
    char why[200]; /* it is; written once, before `lost` is set */
};

/* The launcher's number of processes. */
static int launched(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]);
        if (text && *text)
            return (int)strtol(text, NULL, 10);
    }
    return 1;
}

bool bst_cluster_asked(void)
{
    return launched() > 1;
}

static enum bst_err load(const struct bst_mpi **out)
{
    void *table = NULL;
    BST_TRY(bst_module_symbol("comm_mpi", NEEDS, BST_MPI_TABLE, &table));
    const struct bst_mpi *m = table;
    if (strcmp(m->version, BST_VERSION) != 0 || m->table_bytes != sizeof *m ||
        m->world_bytes != sizeof(struct bst_mpi_world))
        return bst_fail(BST_E_STATE, "comm_mpi.so is of another build of bstune than this one (%s)",
                        BST_VERSION);
    *out = m;
    return BST_OK;
}

enum bst_err bst_cluster_library(char *out, size_t room)
{
    const struct bst_mpi *m = NULL;
    char text[BST_MPI_TEXT] = "";
    BST_TRY(load(&m));
    m->library(text);
    snprintf(out, room, "%s", text);
    return BST_OK;
}

static enum bst_err lose(struct bst_cluster *c, const char *why)
{
    pthread_mutex_lock(&c->lost_lock);
    if (!atomic_load(&c->lost)) {
        snprintf(c->why, sizeof c->why, "%s", why);
        atomic_store(&c->lost, true);
    }
    pthread_mutex_unlock(&c->lost_lock);
    return bst_fail(BST_E_PEER, "%s", c->why);
}

enum bst_err bst_cluster_check(struct bst_cluster *c)
{
    return atomic_load(&c->lost) ? bst_fail(BST_E_PEER, "%s", c->why) : BST_OK;
}

static void nap(double waited)
{
    double ns = waited * 1e9 / NAP_PART;
    ns = ns < NAP_LEAST ? NAP_LEAST : ns > NAP_MOST ? NAP_MOST : ns;
    const struct timespec t = {0, (long)ns};
    nanosleep(&t, NULL);
}

static enum bst_err wait_for(struct bst_cluster *c, int begun, double limit)
{
    char why[sizeof c->why];
    double start = bst_clock_now();
    if (begun < 0)
        return lose(c, "MPI took no message for another process");
    for (int turn = 0;; turn++) {
        pthread_mutex_lock(&c->lock);
        int over = c->mpi->test(begun);
        pthread_mutex_unlock(&c->lock);
        if (over > 0)
            return BST_OK;
        if (over < 0)
            return lose(c, "MPI could not get a message through to another process");
        BST_TRY(bst_cluster_check(c));
        double waited = bst_clock_now() - start;
        if (limit > 0 && waited > limit) {
            snprintf(why, sizeof why, "no answer from the other processes for %.0f s", limit);
            return lose(c, why);
        }
        if (turn < EAGER)
            sched_yield();
        else
            nap(waited);
    }
}

/* `what`: its first bytes; NULL: nothing yet. */
static struct letter *write_letter(const void *what, size_t bytes, size_t room)
{
    struct letter *l = bst_xalloc(sizeof *l + room);
    if (what)
        memcpy(l->text, what, bytes);
    return l;
}

static void put_away(struct bst_cluster *c, struct letter *l, enum bst_err err)
{
    if (!err) {
        bst_free(l);
        return;
    }
    pthread_mutex_lock(&c->lock);
    l->next = c->undelivered;
    c->undelivered = l;
    pthread_mutex_unlock(&c->lock);
}

enum bst_err bst_cluster_gather(struct bst_cluster *c, const void *mine, void *all, size_t bytes)
{
    const size_t whole = bytes * (size_t)c->info.n_processes;
    BST_TRY(bst_cluster_check(c));
    struct letter *l = write_letter(mine, bytes, bytes + whole);
    pthread_mutex_lock(&c->lock);
    int begun = c->mpi->gather(l->text, l->text + bytes, bytes);
    pthread_mutex_unlock(&c->lock);
    enum bst_err err = wait_for(c, begun, c->wait_seconds);
    if (!err)
        memcpy(all, l->text + bytes, whole);
    put_away(c, l, err);
    return err;
}

static int begin_send(struct bst_cluster *c, const void *p, size_t bytes, int to, int tag)
{
    pthread_mutex_lock(&c->lock);
    int begun = c->mpi->send(p, bytes, to, tag);
    pthread_mutex_unlock(&c->lock);
    return begun;
}

static int begin_receive(struct bst_cluster *c, void *p, size_t bytes, int from, int tag)
{
    pthread_mutex_lock(&c->lock);
    int begun = c->mpi->receive(p, bytes, from, tag);
    pthread_mutex_unlock(&c->lock);
    return begun;
}

static enum bst_err send_letter(struct bst_cluster *c, const void *what, size_t bytes, int to,
                                int tag)
{
    struct letter *l = write_letter(what, bytes, bytes);
    enum bst_err err = wait_for(c, begin_send(c, l->text, bytes, to, tag), c->wait_seconds);
    put_away(c, l, err);
    return err;
}

enum bst_err bst_cluster_tell(struct bst_cluster *c, const void *what, size_t bytes)
{
    BST_TRY(bst_cluster_check(c));
    for (int k = 1; k < c->info.n_processes; k++)
        BST_TRY(send_letter(c, what, bytes, k, TAG_REQUEST));
    return BST_OK;
}

enum bst_err bst_cluster_hear(struct bst_cluster *c, void *what, size_t bytes)
{
    BST_TRY(bst_cluster_check(c));
    struct letter *l = write_letter(NULL, 0, bytes);
    enum bst_err err = wait_for(c, begin_receive(c, l->text, bytes, 0, TAG_REQUEST), 0);
    if (!err)
        memcpy(what, l->text, bytes);
    put_away(c, l, err);
    return err;
}

void bst_cluster_notify(struct bst_cluster *c, const struct bst_notice *n)
{
    /* Short enough to go without the other side's help; one that is lost costs time alone. */
    for (int k = 0; k < c->info.n_processes; k++)
        if (k != c->info.process && send_letter(c, n, sizeof *n, k, TAG_NOTICE))
            return;
}

bool bst_cluster_noticed(struct bst_cluster *c, struct bst_notice *out)
{
    int from;
    pthread_mutex_lock(&c->lock);
    bool there = !atomic_load(&c->lost) && c->mpi->take(out, sizeof *out, TAG_NOTICE, &from);
    pthread_mutex_unlock(&c->lock);
    return there;
}

int bst_cluster_send(struct bst_cluster *c, const void *p, size_t bytes, int to)
{
    return begin_send(c, p, bytes, to, TAG_RING);
}

int bst_cluster_receive(struct bst_cluster *c, void *p, size_t bytes, int from)
{
    return begin_receive(c, p, bytes, from, TAG_RING);
}

enum bst_err bst_cluster_end(struct bst_cluster *c, int begun)
{
    return wait_for(c, begun, c->wait_seconds);
}

bool bst_cluster_owes(struct bst_cluster *c)
{
    if (!atomic_load(&c->lost))
        return false;
    pthread_mutex_lock(&c->lock);
    bool some = c->mpi->left() > 0;
    pthread_mutex_unlock(&c->lock);
    return some;
}

static void process_lost(void *arg, int process, const char *left_for)
{
    char why[sizeof((struct bst_cluster *)0)->why];
    if (*left_for)
        snprintf(why, sizeof why, "process %d has left this run: %.150s", process, left_for);
    else
        snprintf(why, sizeof why, "process %d of this run has ended or cannot be reached any more",
                 process);
    lose(arg, why);
}

static enum bst_err gather_of(void *arg, const void *mine, void *all, size_t bytes)
{
    return bst_cluster_gather(arg, mine, all, bytes);
}

static enum bst_err watch_others(struct bst_cluster *c)
{
    const struct bst_lifeline_cfg cfg = {
        .info = &c->info, .gather = gather_of, .lost = process_lost, .arg = c};
    return bst_lifeline_open(&cfg, &c->lifeline);
}

/* MPI starts threads of its own: a signal is not theirs to die of. */
static bool start_mpi(const struct bst_mpi *mpi, struct bst_mpi_world *w, char why[BST_MPI_TEXT])
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = mpi->start(w, why);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

enum bst_err bst_cluster_open(struct bst_cluster **out)
{
    const struct bst_mpi *mpi = NULL;
    struct bst_mpi_world w = {0};
    char why[BST_MPI_TEXT] = "";
    *out = NULL;
    if (!bst_cluster_asked())
        return BST_OK;
    enum bst_err err = load(&mpi);
    if (err)
        return bst_fail_in(err, "started as one process of %d", launched());
    if (!start_mpi(mpi, &w, why))
        return bst_fail(BST_E_LIBRARY, "%s", why);
    if (w.n_processes != launched())
        return bst_fail(BST_E_STATE,
                        "started as one process of %d, but MPI knows of %d: the launcher is of "
                        "another MPI than bstune was built with",
                        launched(), w.n_processes);
    struct bst_cluster *c = bst_xalloc(sizeof *c);
    c->mpi = mpi;
    c->info = (struct bst_cluster_info){w.process, w.n_processes, w.host, w.on_host, w.n_on_host};
    c->wait_seconds = WAIT_SECONDS;
    pthread_mutex_init(&c->lock, NULL);
    pthread_mutex_init(&c->lost_lock, NULL);
    *out = c;
    return watch_others(c);
}

void bst_cluster_close(struct bst_cluster *c, int code)
{
    if (!c)
        return;
    if (atomic_load(&c->lost) || c->busy) {
        fflush(NULL); /* what was said last, of this run and of its end */
        /* The launcher ends all, process 0 as well, as soon as one asks for it. */
        if (c->info.process > 0)
            bst_lifeline_leave(c->lifeline, c->why, c->wait_seconds + SAVE_SECONDS);
        c->mpi->abort(code ? code : 1);
    }
    bst_lifeline_close(c->lifeline);
    c->mpi->finish();
    pthread_mutex_destroy(&c->lock);
    pthread_mutex_destroy(&c->lost_lock);
    bst_free(c);
}

void bst_cluster_busy(struct bst_cluster *c, bool busy)
{
    if (c)
        c->busy = busy;
}

const struct bst_cluster_info *bst_cluster_info(const struct bst_cluster *c)
{
    return &c->info;
}

void bst_cluster_set_wait(struct bst_cluster *c, double seconds)
{
    c->wait_seconds = seconds > 0 ? seconds : WAIT_SECONDS;
}
