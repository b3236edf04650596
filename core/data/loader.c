#include "core/data/data.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/data/dataset.h"
#include "core/data/loader_inner.h"

enum {
    SLOTS_MOST = 1024,
    CHUNK_BYTES = 64 << 10, /* what a thread fills between two looks at the lock */
    STOP_POLL_MS = 20,      /* between a waiting taker's looks at its stop flag */
};

static struct slot *find_state(const struct bst_loader *l, enum slot_state state)
{
    for (int i = 0; i < l->cfg.slots; i++)
        if (l->slots[i].state == state)
            return &l->slots[i];
    return NULL;
}

/* Deadlines on it are of the clock that nobody sets. */
static void init_monotonic(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

enum bst_err bst_loader_new(const struct bst_loader_cfg *cfg, struct bst_loader **out)
{
    *out = NULL;
    if (cfg->max_batch < 1 || cfg->slots < 1 || cfg->slots > SLOTS_MOST || cfg->threads < 0)
        return bst_fail(BST_E_ARG, "loader: batch %d, slots %d, threads %d", cfg->max_batch,
                        cfg->slots, cfg->threads);
    struct bst_loader *l = bst_xalloc(sizeof *l);
    l->cfg = *cfg;
    l->info = bst_dataset_info(cfg->ds);
    l->sample_bytes = (size_t)l->info->height * (size_t)l->info->width * (size_t)l->info->channels;
    for (int k = 0; k < l->info->streams; k++)
        l->sample_bytes += (size_t)l->info->length[k] * sizeof(int32_t);
    size_t chunk = CHUNK_BYTES / l->sample_bytes;
    l->chunk = chunk < 1 ? 1 : chunk > 64 ? 64 : (int)chunk;
    l->slots = bst_xcalloc((size_t)cfg->slots, sizeof *l->slots);
    l->threads = bst_xcalloc((size_t)cfg->threads, sizeof *l->threads);
    l->order = bst_order_new(cfg->ds, cfg->part, cfg->shuffle, cfg->seed);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->work, NULL);
    init_monotonic(&l->filled);
    enum bst_err err = bst_loader_carve(l);
    if (!err)
        err = bst_loader_start_threads(l);
    if (err) {
        bst_loader_free(l);
        return err;
    }
    *out = l;
    return BST_OK;
}

void bst_loader_free(struct bst_loader *l)
{
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    atomic_store(&l->over, true);
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->n_threads; i++)
        pthread_join(l->threads[i], NULL);
    for (int i = 0; i < l->cfg.slots; i++)
        bst_free(l->slots[i].bad);
    bst_loader_free_block(l);
    pthread_cond_destroy(&l->filled);
    pthread_cond_destroy(&l->work);
    pthread_mutex_destroy(&l->lock);
    bst_order_free(l->order);
    bst_free(l->slots);
    bst_free(l->threads);
    bst_free(l);
}

static struct slot *find_asked(const struct bst_loader *l, struct range r)
{
    for (int i = 0; i < l->cfg.slots; i++) {
        struct slot *s = &l->slots[i];
        if (s->state == ASKED && s->first == r.first && s->n == r.n)
            return s;
    }
    return NULL;
}

static int find_waiting(const struct bst_loader *l, struct range r)
{
    for (int i = 0; i < l->n_waiting; i++)
        if (l->waiting[i].first == r.first && l->waiting[i].n == r.n)
            return i;
    return -1;
}

void bst_loader_ask(struct bst_loader *l, uint64_t first, int n)
{
    struct range r = {first, n};
    if (!l->n_threads || n < 1 || n > l->cfg.max_batch)
        return;
    pthread_mutex_lock(&l->lock);
    if (!find_asked(l, r) && find_waiting(l, r) < 0) {
        struct slot *s = find_state(l, FREE);
        if (s)
            bst_loader_start_slot(l, s, r);
        else if (l->n_waiting < LOADER_WAITING_MOST)
            l->waiting[l->n_waiting++] = r;
    }
    pthread_mutex_unlock(&l->lock);
}

static void drop_slot(struct bst_loader *l, struct slot *s)
{
    if (s->done == s->next) {
        bst_loader_free_slot(l, s);
        return;
    }
    s->n = s->next;
    s->state = DRAINING;
}

/* Ranges asked for before `serial`, that the taker has passed over. */
static void drop_before(struct bst_loader *l, uint64_t serial)
{
    for (int i = 0; i < l->cfg.slots; i++)
        if (l->slots[i].state == ASKED && l->slots[i].serial < serial)
            drop_slot(l, &l->slots[i]);
}

/* Until something was filled or freed, or it is time to look at `stop` again. */
static enum bst_err wait_filled(struct bst_loader *l, const atomic_int *stop)
{
    struct timespec until;
    if (!stop) {
        pthread_cond_wait(&l->filled, &l->lock);
        return BST_OK;
    }
    if (atomic_load(stop))
        return bst_fail(BST_E_CANCELLED, "stopped");
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += STOP_POLL_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_cond_timedwait(&l->filled, &l->lock, &until);
    return BST_OK;
}

/* The slot of this range, asked for now if it was not before. */
static enum bst_err claim(struct bst_loader *l, struct range r, const atomic_int *stop,
                          struct slot **out)
{
    enum bst_err err = BST_OK;
    struct slot *s = find_asked(l, r);
    if (s) {
        drop_before(l, s->serial);
        *out = s;
        return BST_OK;
    }
    int at = find_waiting(l, r);
    bst_loader_drop_waiting(l, at < 0 ? l->n_waiting : at + 1);
    /* What waits behind this range must not get the slots that are dropped now before it does. */
    int n_later = l->n_waiting;
    l->n_waiting = 0;
    drop_before(l, UINT64_MAX);
    while (!err && !(s = find_state(l, FREE)) && find_state(l, DRAINING))
        err = wait_filled(l, stop);
    l->n_waiting = n_later;
    if (err)
        return err;
    if (!s)
        return bst_fail(BST_E_STATE, "loader: all %d slots are taken", l->cfg.slots);
    bst_loader_start_slot(l, s, r);
    while (l->n_waiting && (*out = find_state(l, FREE)))
        bst_loader_free_slot(l, *out);
    *out = s;
    return BST_OK;
}

static int by_item(const void *a, const void *b)
{
    const struct bad_item *x = a, *y = b;
    return (x->item > y->item) - (x->item < y->item);
}

/* Noted here and in order, not where a thread came upon them, so that what is listed and when the
 * run gives up do not depend on the threads. */
static enum bst_err note_bad(struct bst_loader *l, struct slot *s)
{
    if (s->n_bad)
        qsort(s->bad, (size_t)s->n_bad, sizeof *s->bad, by_item);
    for (int i = 0; i < s->n_bad; i++)
        BST_TRY(bst_dataset_note_bad(l->cfg.ds, l->cfg.part, s->bad[i].index, s->bad[i].reason));
    return bst_err_restore(&s->failed);
}

static struct bst_batch batch_of(const struct bst_loader *l, const struct slot *s)
{
    const struct bst_data_info *info = l->info;
    struct bst_batch b = {.images = info->streams ? NULL : s->images,
                          .labels = s->labels,
                          .index = s->index,
                          .n = s->n,
                          .n_bad = s->n_bad,
                          .slot = (int)(s - l->slots),
                          .block = s->images,
                          .block_bytes = l->slot_bytes};
    for (int k = 0; k < info->streams; k++) {
        b.tokens[k] = s->tokens[k];
        b.lengths[k] = info->padded ? s->lengths[k] : NULL;
    }
    b.pair = info->streams ? s->pair : NULL;
    b.length = info->padded ? info->length[0] : 0;
    return b;
}

static enum bst_err check_range(const struct bst_loader *l, uint64_t first, int n)
{
    if (n < 1 || n > l->cfg.max_batch)
        return bst_fail(BST_E_ARG, "loader: %d samples asked for, at most %d", n, l->cfg.max_batch);
    uint64_t n_eval = (uint64_t)l->info->n[BST_EVAL];
    if (l->cfg.part == BST_EVAL && (first > n_eval || (uint64_t)n > n_eval - first))
        return bst_fail(BST_E_RANGE,
                        "loader: samples %" PRIu64 " to %" PRIu64 " of %" PRIu64 " asked for",
                        first, first + (uint64_t)n - 1, n_eval);
    return BST_OK;
}

/* The taker has nothing better to do than to help, but a decoder's memory would be its own: it is
 * kept to the loader's threads. */
static enum bst_err fill_slot(struct bst_loader *l, struct slot *s, const atomic_int *stop)
{
    bool help = !l->n_threads || !l->info->decodes;
    while (s->done < s->n) {
        if (help && stop && atomic_load(stop))
            return bst_fail(BST_E_CANCELLED, "stopped");
        if (!help || !bst_loader_fill_some(l, s))
            BST_TRY(wait_filled(l, stop));
    }
    return BST_OK;
}

enum bst_err bst_loader_take(struct bst_loader *l, uint64_t first, int n, const atomic_int *stop,
                             struct bst_batch *out)
{
    struct slot *s = NULL;
    BST_TRY(check_range(l, first, n));
    double start = bst_clock_now();
    pthread_mutex_lock(&l->lock);
    enum bst_err err = claim(l, (struct range){first, n}, stop, &s);
    if (!err)
        err = fill_slot(l, s, stop);
    if (!err) {
        s->state = TAKEN;
        err = note_bad(l, s);
        if (err)
            bst_loader_free_slot(l, s);
    }
    l->waited += bst_clock_now() - start;
    pthread_mutex_unlock(&l->lock);
    if (!err)
        *out = batch_of(l, s);
    return err;
}

void bst_loader_give_back(struct bst_loader *l, const struct bst_batch *b)
{
    pthread_mutex_lock(&l->lock);
    BST_ASSERT(b->slot >= 0 && b->slot < l->cfg.slots && l->slots[b->slot].state == TAKEN);
    bst_loader_free_slot(l, &l->slots[b->slot]);
    pthread_mutex_unlock(&l->lock);
}

static void cut_rows(int32_t *rows, int n, int from, int to)
{
    for (int i = 1; i < n; i++)
        memmove(rows + (size_t)i * (size_t)to, rows + (size_t)i * (size_t)from,
                (size_t)to * sizeof *rows);
}

/* The slot is its taker's alone until it is given back, and filled as a whole again after that. */
void bst_loader_cut(struct bst_loader *l, struct bst_batch *b, int length)
{
    struct slot *s = &l->slots[b->slot];
    BST_ASSERT(l->info->padded && length > 0 && length <= b->length);
    for (int k = 0; k < l->info->streams; k++)
        cut_rows(s->tokens[k], b->n, b->length, length);
    cut_rows(s->labels, b->n, b->length, length);
    b->length = length;
}

void bst_loader_forget(struct bst_loader *l)
{
    pthread_mutex_lock(&l->lock);
    l->n_waiting = 0;
    drop_before(l, UINT64_MAX);
    pthread_mutex_unlock(&l->lock);
}

size_t bst_loader_bytes(const struct bst_loader *l)
{
    return l->block_bytes;
}

double bst_loader_waited(const struct bst_loader *l)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&l->lock;
    pthread_mutex_lock(lock);
    double waited = l->waited;
    pthread_mutex_unlock(lock);
    return waited;
}
