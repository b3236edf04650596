#include "core/data/data.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/thread.h"
#include "core/data/augment.h"
#include "core/data/dataset.h"

enum {
    SUBSTITUTES = 16,   /* tried for a sample that cannot be read */
    WAITING_MOST = 256, /* ranges remembered beyond the slots */
    SLOTS_MOST = 1024,
    LINE = 64,
    CHUNK_BYTES = 64 << 10, /* what a thread fills between two looks at the lock */
    STOP_POLL_MS = 20,      /* between a waiting taker's looks at its stop flag */
};

/* FREE → ASKED (being filled) → TAKEN → FREE. A slot whose range is dropped while threads fill it
 * is DRAINING until the last of them leaves. */
enum slot_state { FREE, ASKED, TAKEN, DRAINING };

struct bad_item {
    int item;
    int64_t index;
    char reason[240];
};

struct slot {
    enum slot_state state;
    uint64_t first, serial; /* serial: order of asking */
    int n, next, done;      /* items in all, handed out, filled */
    struct bad_item *bad;   /* items another sample stands in for */
    int n_bad, bad_room;
    enum bst_err err; /* the first that no substitute helps against, with its words */
    char words[240];
    uint8_t *images;
    int64_t *index;
    int32_t *labels;
    int32_t *tokens[BST_DATA_STREAMS], *lengths[BST_DATA_STREAMS], *pair; /* of sequences */
};

struct range {
    uint64_t first;
    int n;
};

struct bst_loader {
    struct bst_loader_cfg cfg;
    const struct bst_data_info *info;
    struct bst_order *order;
    size_t sample_bytes, block_bytes, slot_bytes;
    void *block; /* of all slots */
    struct slot *slots;
    int chunk; /* items a thread takes at a time */
    pthread_t *threads;
    int n_threads;

    pthread_mutex_t lock;        /* guards what follows and the slots' states and counts */
    pthread_cond_t work, filled; /* something to fill; items filled or a slot freed */
    uint64_t next_serial;
    struct range waiting[WAITING_MOST]; /* asked for when no slot was free, oldest first */
    int n_waiting;
    double waited;
    atomic_bool over; /* also read without the lock */
};

/* Sample `index` as item i. */
static enum bst_err get(const struct bst_loader *l, struct slot *s, int i, int64_t index,
                        uint64_t key)
{
    const struct bst_loader_cfg *cfg = &l->cfg;
    const struct bst_data_info *info = l->info;
    struct bst_token_sample t;
    if (!info->streams)
        return bst_dataset_get(cfg->ds, cfg->part, index, key,
                               s->images + (size_t)i * l->sample_bytes, &s->labels[i]);
    for (int k = 0; k < BST_DATA_STREAMS; k++) {
        t.tokens[k] = s->tokens[k] + (size_t)i * (size_t)info->length[k];
        t.length[k] = s->lengths[k] + i;
    }
    t.labels = s->labels + (size_t)i * (size_t)info->n_labels;
    t.pair = s->pair + i;
    return bst_dataset_get_tokens(cfg->ds, cfg->part, index, key, &t);
}

/* Fills one item with its sample or, if that cannot be read, the nearest later one that can. */
static enum bst_err fill_item(const struct bst_loader *l, struct slot *s, int i,
                              struct bad_item *bad)
{
    const struct bst_loader_cfg *cfg = &l->cfg;
    int64_t n = l->info->n[cfg->part];
    uint64_t position = s->first + (uint64_t)i, key = 0;
    int64_t index = bst_order_index(l->order, position);
    if (cfg->part == BST_TRAIN)
        key = bst_augment_key(cfg->seed, position / (uint64_t)n, index);
    s->index[i] = index;
    bad->item = -1;
    enum bst_err err = get(l, s, i, index, key);
    if (!bst_dataset_is_bad_sample(err))
        return err;
    bad->item = i;
    bad->index = index;
    snprintf(bad->reason, sizeof bad->reason, "%s", bst_err_text());
    for (int k = 1; k <= SUBSTITUTES && bst_dataset_is_bad_sample(err); k++) {
        s->index[i] = (index + k) % n;
        err = get(l, s, i, s->index[i], key);
    }
    return err ? bst_fail(err, "%s (nor can the %d samples after it be read)", bad->reason,
                          SUBSTITUTES)
               : BST_OK;
}

static void note_item(struct slot *s, enum bst_err err, const struct bad_item *bad)
{
    if (err && !s->err) {
        s->err = err;
        snprintf(s->words, sizeof s->words, "%s", bst_err_text());
    }
    if (bad->item < 0)
        return;
    if (s->n_bad == s->bad_room) {
        s->bad_room = s->bad_room ? 2 * s->bad_room : 4;
        s->bad = bst_xrealloc(s->bad, (size_t)s->bad_room, sizeof *s->bad);
    }
    s->bad[s->n_bad++] = *bad;
}

static struct slot *find_state(const struct bst_loader *l, enum slot_state state)
{
    for (int i = 0; i < l->cfg.slots; i++)
        if (l->slots[i].state == state)
            return &l->slots[i];
    return NULL;
}

static void start_slot(struct bst_loader *l, struct slot *s, struct range r)
{
    s->state = ASKED;
    s->first = r.first;
    s->n = r.n;
    s->next = s->done = s->n_bad = 0;
    s->err = BST_OK;
    s->serial = l->next_serial++;
    pthread_cond_broadcast(&l->work);
}

static void drop_waiting(struct bst_loader *l, int n)
{
    l->n_waiting -= n;
    memmove(l->waiting, l->waiting + n, (size_t)l->n_waiting * sizeof l->waiting[0]);
}

/* A slot has become free: the oldest range that waits gets it. */
static void free_slot(struct bst_loader *l, struct slot *s)
{
    s->state = FREE;
    if (l->n_waiting) {
        struct range r = l->waiting[0];
        drop_waiting(l, 1);
        start_slot(l, s, r);
    }
    pthread_cond_broadcast(&l->filled);
}

/* Without the lock: these items are this thread's alone. */
static void fill_items(struct bst_loader *l, struct slot *s, int from, int to)
{
    for (int i = from; i < to && !atomic_load(&l->over); i++) {
        struct bad_item bad;
        enum bst_err err = fill_item(l, s, i, &bad);
        if (!err && bad.item < 0)
            continue;
        pthread_mutex_lock(&l->lock);
        note_item(s, err, &bad);
        pthread_mutex_unlock(&l->lock);
    }
}

/* Takes a chunk of s and fills it, with the lock released meanwhile. False when all was handed out.
 */
static bool fill_some(struct bst_loader *l, struct slot *s)
{
    int from = s->next, to = from + l->chunk < s->n ? from + l->chunk : s->n;
    if (from >= to)
        return false;
    s->next = to;
    pthread_mutex_unlock(&l->lock);
    fill_items(l, s, from, to);
    pthread_mutex_lock(&l->lock);
    s->done += to - from;
    if (s->state == DRAINING && s->done == s->next)
        free_slot(l, s);
    else if (s->done == s->n)
        pthread_cond_broadcast(&l->filled);
    return true;
}

static struct slot *oldest_to_fill(const struct bst_loader *l)
{
    struct slot *oldest = NULL;
    for (int i = 0; i < l->cfg.slots; i++) {
        struct slot *s = &l->slots[i];
        if (s->state == ASKED && s->next < s->n && (!oldest || s->serial < oldest->serial))
            oldest = s;
    }
    return oldest;
}

static void *worker(void *arg)
{
    struct bst_loader *l = arg;
    pthread_setname_np(pthread_self(), "bst-loader");
    pthread_mutex_lock(&l->lock);
    while (!atomic_load(&l->over)) {
        struct slot *s = oldest_to_fill(l);
        if (s)
            fill_some(l, s);
        else
            pthread_cond_wait(&l->work, &l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static enum bst_err start_threads(struct bst_loader *l)
{
    for (; l->n_threads < l->cfg.threads; l->n_threads++) {
        enum bst_err err = bst_thread_start(&l->threads[l->n_threads], worker, l);
        if (err)
            return bst_fail_in(err, "loader: %d of %d threads", l->n_threads + 1, l->cfg.threads);
    }
    return BST_OK;
}

static size_t round_up(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

/* A slot's parts, each on cache lines of its own. */
struct carve {
    size_t images, index, labels, tokens[BST_DATA_STREAMS], length; /* bytes; the last: each of the
                                                                       lengths and pairs */
    size_t slot, block;                                             /* block: of all slots */
};

/* At the end of a slot that takes `*all` bytes so far: most · each reals of `size`. */
static bool add_part(size_t most, int each, size_t size, size_t *part, size_t *all)
{
    size_t n;
    if (!bst_mul_size(most, (size_t)each, &n) || !bst_mul_size(n, size, part) ||
        !bst_add_size(*part, LINE, &n))
        return false;
    *part = round_up(*part);
    return bst_add_size(*all, *part, all);
}

static bool plan_carve(const struct bst_loader_cfg *cfg, struct carve *c)
{
    const struct bst_data_info *info = bst_dataset_info(cfg->ds);
    size_t most = (size_t)cfg->max_batch, lengths = 0;
    size_t sample = (size_t)info->height * (size_t)info->width * (size_t)info->channels;
    *c = (struct carve){0};
    if (!add_part(most, 1, sample, &c->images, &c->slot) ||
        !add_part(most, 1, sizeof(int64_t), &c->index, &c->slot) ||
        !add_part(most, info->n_labels, sizeof(int32_t), &c->labels, &c->slot))
        return false;
    if (info->streams) {
        for (int k = 0; k < BST_DATA_STREAMS; k++)
            if (!add_part(most, info->length[k], sizeof(int32_t), &c->tokens[k], &c->slot))
                return false;
        c->length = round_up(most * sizeof(int32_t));
        lengths = (BST_DATA_STREAMS + 1) * c->length;
    }
    return bst_add_size(c->slot, lengths, &c->slot) &&
           bst_mul_size(c->slot, (size_t)cfg->slots, &c->block);
}

size_t bst_loader_bytes_for(const struct bst_loader_cfg *cfg)
{
    struct carve c;
    return plan_carve(cfg, &c) ? c.block : SIZE_MAX;
}

static int32_t *next_part(uint8_t **at, size_t bytes)
{
    uint8_t *part = *at;
    *at += bytes;
    return (int32_t *)(void *)part;
}

static void carve_slot(struct slot *s, const struct carve *c, bool sequences, uint8_t *at)
{
    s->images = at;
    at += c->images;
    s->index = (int64_t *)(void *)at;
    at += c->index;
    s->labels = next_part(&at, c->labels);
    for (int k = 0; k < BST_DATA_STREAMS && sequences; k++) {
        s->tokens[k] = next_part(&at, c->tokens[k]);
        s->lengths[k] = next_part(&at, c->length);
    }
    if (sequences)
        s->pair = next_part(&at, c->length);
}

static enum bst_err alloc_block(const struct bst_loader_cfg *cfg, size_t bytes, void **out)
{
    return cfg->backend && cfg->backend->alloc_host ? cfg->backend->alloc_host(cfg->be, bytes, out)
                                                    : bst_alloc(bytes, out);
}

static void free_block(struct bst_loader *l)
{
    if (l->block && l->cfg.backend && l->cfg.backend->free_host)
        l->cfg.backend->free_host(l->cfg.be, l->block, l->block_bytes);
    else
        bst_alloc_free(l->block, l->block_bytes);
}

/* One block for all slots. */
static enum bst_err carve_slots(struct bst_loader *l)
{
    struct carve c;
    if (!plan_carve(&l->cfg, &c))
        return bst_fail(BST_E_NOMEM, "loader: a batch of more bytes than can be");
    BST_TRY(alloc_block(&l->cfg, c.block, &l->block));
    l->block_bytes = c.block;
    l->slot_bytes = c.slot;
    for (int i = 0; i < l->cfg.slots; i++)
        carve_slot(&l->slots[i], &c, l->info->streams, (uint8_t *)l->block + (size_t)i * c.slot);
    return BST_OK;
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
    enum bst_err err = carve_slots(l);
    if (!err)
        err = start_threads(l);
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
    free_block(l);
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
            start_slot(l, s, r);
        else if (l->n_waiting < WAITING_MOST)
            l->waiting[l->n_waiting++] = r;
    }
    pthread_mutex_unlock(&l->lock);
}

static void drop_slot(struct bst_loader *l, struct slot *s)
{
    if (s->done == s->next) {
        free_slot(l, s);
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
    drop_waiting(l, at < 0 ? l->n_waiting : at + 1);
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
    start_slot(l, s, r);
    while (l->n_waiting && (*out = find_state(l, FREE)))
        free_slot(l, *out);
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
    return s->err ? bst_fail(s->err, "%s", s->words) : BST_OK;
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
        if (!help || !fill_some(l, s))
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
            free_slot(l, s);
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
    free_slot(l, &l->slots[b->slot]);
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
