#include "tests/unit/fake_mpi.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "core/comm/mpi.h"

enum { REQUESTS = 64, ROUNDS = 64, SEEN = 1024, SCRIBBLE = 0xEE };

enum kind { FREE, SEND, RECEIVE, GATHER };

struct request {
    enum kind kind;
    bool over;
    const void *src;
    void *dst;
    size_t bytes;
    int peer, tag;
    unsigned round; /* of a gather, by this process */
};

struct parcel { /* in the order of sending */
    struct parcel *next;
    int from, to, tag;
    size_t bytes;
    struct request *of; /* of a long one, whose bytes lie at the sender's still */
    char *own;
};

struct round { /* of a gather, until all have their copy */
    unsigned number;
    int n_there, n_done;
    char *part[FAKE_MPI_MOST];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    int n, n_aborted;
    int aborted[FAKE_MPI_MOST];
    struct request requests[FAKE_MPI_MOST][REQUESTS];
    unsigned n_gathers[FAKE_MPI_MOST];
    struct round rounds[ROUNDS];
    struct parcel *parcels;
} w;
/* What a process that has given up left in this MPI's hands is no leak. */
static const void *seen[SEEN];
static unsigned n_seen;

static _Thread_local int here;

void fake_mpi_here(int process)
{
    here = process;
}

static void drop_parcel(struct parcel **at)
{
    struct parcel *p = *at;

    *at = p->next;
    free(p->own);
    free(p);
}

void fake_mpi_world(int n)
{
    char text[12];

    while (w.parcels)
        drop_parcel(&w.parcels);
    for (int i = 0; i < ROUNDS; i++)
        for (int p = 0; p < FAKE_MPI_MOST; p++)
            free(w.rounds[i].part[p]);
    memset(&w, 0, sizeof w);
    w.n = n;
    snprintf(text, sizeof text, "%d", n);
    setenv("OMPI_COMM_WORLD_SIZE", text, 1);
}

int fake_mpi_aborted(int process)
{
    pthread_mutex_lock(&lock);
    int n = w.aborted[process];
    pthread_mutex_unlock(&lock);
    return n;
}

size_t fake_mpi_scribble(int process)
{
    size_t n = 0;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < REQUESTS; i++) {
        struct request *r = &w.requests[process][i];

        if (r->kind != FREE && !r->over && r->dst) {
            memset(r->dst, SCRIBBLE, r->bytes);
            n += r->bytes;
        }
    }
    pthread_mutex_unlock(&lock);
    return n;
}

/* --- with the lock --- */

static int begin(int me, const struct request *what)
{
    for (int i = 0; i < REQUESTS; i++)
        if (w.requests[me][i].kind == FREE) {
            w.requests[me][i] = *what;
            seen[n_seen++ % SEEN] = what->src ? what->src : what->dst;
            return i;
        }
    return -1;
}

static struct round *round_of(unsigned number)
{
    struct round *r = &w.rounds[number % ROUNDS];

    if (r->n_there == 0)
        r->number = number;
    if (r->number != number)
        abort(); /* more of them under way than there is room for */
    return r;
}

static char *copy_of(const void *p, size_t bytes)
{
    char *c = malloc(bytes + 1);

    memcpy(c, p, bytes);
    return c;
}

static bool gathered(int me, struct request *r)
{
    struct round *all = round_of(r->round);
    const size_t each = r->bytes / (size_t)w.n;

    (void)me;
    if (all->n_there < w.n)
        return false;
    for (int p = 0; p < w.n; p++)
        memcpy((char *)r->dst + (size_t)p * each, all->part[p], each);
    if (++all->n_done == w.n) {
        for (int p = 0; p < w.n; p++)
            free(all->part[p]);
        memset(all, 0, sizeof *all);
    }
    return true;
}

/* from < 0: anybody's. */
static struct parcel **find(int me, int from, int tag)
{
    struct parcel **at = &w.parcels;

    while (*at && !((*at)->to == me && (*at)->tag == tag && (from < 0 || (*at)->from == from)))
        at = &(*at)->next;
    return at;
}

static bool open_parcel(struct parcel **at, void *dst, size_t bytes)
{
    struct parcel *p = *at;

    if (!p)
        return false;
    if (p->bytes > bytes)
        abort(); /* cut short: two sides that are not of one mind */
    memcpy(dst, p->of ? p->of->src : p->own, p->bytes);
    if (p->of)
        p->of->over = true;
    drop_parcel(at);
    return true;
}

static bool look(int me, struct request *r)
{
    if (!r->over && r->kind == GATHER)
        r->over = gathered(me, r);
    if (!r->over && r->kind == RECEIVE)
        r->over = open_parcel(find(me, r->peer, r->tag), r->dst, r->bytes);
    return r->over;
}

static int look_at(int me, int i)
{
    struct request *r = &w.requests[me][i];

    if (!look(me, r))
        return 0;
    r->kind = FREE;
    return 1;
}

/* --- the table, by process --- */

static void library(char out[BST_MPI_TEXT])
{
    snprintf(out, BST_MPI_TEXT, "a fake MPI");
}

static bool start_of(int me, struct bst_mpi_world *out)
{
    *out =
        (struct bst_mpi_world){.process = me, .n_processes = w.n, .on_host = me, .n_on_host = w.n};
    return true;
}

static int gather_of(int me, const void *mine, void *all, size_t bytes)
{
    pthread_mutex_lock(&lock);
    const struct request r = {.kind = GATHER,
                              .src = mine,
                              .dst = all,
                              .bytes = bytes * (size_t)w.n,
                              .round = w.n_gathers[me]++};
    struct round *round = round_of(r.round);
    round->part[me] = copy_of(mine, bytes);
    round->n_there++;
    int begun = begin(me, &r);
    pthread_mutex_unlock(&lock);
    return begun;
}

static int send_of(int me, const void *p, size_t bytes, int to, int tag)
{
    struct parcel *parcel = calloc(1, sizeof *parcel), **last;
    const bool is_short = bytes <= FAKE_MPI_SHORT;

    pthread_mutex_lock(&lock);
    const struct request r = {.kind = SEND, .over = is_short, .src = p, .bytes = bytes};
    int begun = begin(me, &r);
    *parcel = (struct parcel){.from = me, .to = to, .tag = tag, .bytes = bytes};
    if (is_short)
        parcel->own = copy_of(p, bytes);
    else
        parcel->of = &w.requests[me][begun];
    for (last = &w.parcels; *last; last = &(*last)->next)
        ;
    *last = parcel;
    pthread_mutex_unlock(&lock);
    return begun;
}

static int receive_of(int me, void *p, size_t bytes, int from, int tag)
{
    pthread_mutex_lock(&lock);
    const struct request r = {.kind = RECEIVE, .dst = p, .bytes = bytes, .peer = from, .tag = tag};
    int begun = begin(me, &r);
    pthread_mutex_unlock(&lock);
    return begun;
}

static int test_of(int me, int begun)
{
    pthread_mutex_lock(&lock);
    int over = look_at(me, begun);
    pthread_mutex_unlock(&lock);
    return over;
}

static bool take_of(int me, void *p, size_t bytes, int tag, int *from)
{
    pthread_mutex_lock(&lock);
    struct parcel **at = find(me, -1, tag);
    *from = *at ? (*at)->from : -1;
    bool there = open_parcel(at, p, bytes);
    pthread_mutex_unlock(&lock);
    return there;
}

static int left_of(int me)
{
    int n = 0;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < REQUESTS; i++) {
        if (w.requests[me][i].kind == RECEIVE)
            w.requests[me][i].kind = FREE;
        n += w.requests[me][i].kind != FREE && !look_at(me, i);
    }
    pthread_mutex_unlock(&lock);
    return n;
}

static void abort_of(int me)
{
    pthread_mutex_lock(&lock);
    w.aborted[me] = ++w.n_aborted;
    pthread_mutex_unlock(&lock);
}

static void finish(void)
{
}

#define PROCESS(P)                                                                                 \
    static bool start_##P(struct bst_mpi_world *out, char why[BST_MPI_TEXT])                       \
    {                                                                                              \
        (void)why;                                                                                 \
        return start_of(P, out);                                                                   \
    }                                                                                              \
    static int gather_##P(const void *mine, void *all, size_t bytes)                               \
    {                                                                                              \
        return gather_of(P, mine, all, bytes);                                                     \
    }                                                                                              \
    static int send_##P(const void *p, size_t bytes, int to, int tag)                              \
    {                                                                                              \
        return send_of(P, p, bytes, to, tag);                                                      \
    }                                                                                              \
    static int receive_##P(void *p, size_t bytes, int from, int tag)                               \
    {                                                                                              \
        return receive_of(P, p, bytes, from, tag);                                                 \
    }                                                                                              \
    static int test_##P(int begun)                                                                 \
    {                                                                                              \
        return test_of(P, begun);                                                                  \
    }                                                                                              \
    static bool take_##P(void *p, size_t bytes, int tag, int *from)                                \
    {                                                                                              \
        return take_of(P, p, bytes, tag, from);                                                    \
    }                                                                                              \
    static int left_##P(void)                                                                      \
    {                                                                                              \
        return left_of(P);                                                                         \
    }                                                                                              \
    static void abort_##P(int code)                                                                \
    {                                                                                              \
        (void)code;                                                                                \
        abort_of(P);                                                                               \
    }
PROCESS(0)
PROCESS(1)
PROCESS(2)
PROCESS(3)

#define TABLE(P)                                                                                   \
    {                                                                                              \
        .version = BST_VERSION, .table_bytes = sizeof(struct bst_mpi),                             \
        .world_bytes = sizeof(struct bst_mpi_world), .library = library, .start = start_##P,       \
        .gather = gather_##P, .send = send_##P, .receive = receive_##P, .test = test_##P,          \
        .take = take_##P, .left = left_##P, .finish = finish, .abort = abort_##P                   \
    }
static const struct bst_mpi tables[FAKE_MPI_MOST] = {TABLE(0), TABLE(1), TABLE(2), TABLE(3)};

enum bst_err __wrap_bst_module_symbol(const char *name, const char *needs, const char *symbol,
                                      void **out);
enum bst_err __wrap_bst_module_symbol(const char *name, const char *needs, const char *symbol,
                                      void **out)
{
    const void *table = &tables[here];

    (void)name;
    (void)needs;
    (void)symbol;
    memcpy(out, &table, sizeof table);
    return BST_OK;
}
