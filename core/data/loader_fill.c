/* What the loader's threads do, and whoever waits for a slot: fill it, sample by sample. */
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/base/thread.h"
#include "core/data/augment.h"
#include "core/data/dataset.h"
#include "core/data/loader_inner.h"

enum { SUBSTITUTES = 16 }; /* tried for a sample that cannot be read */

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
    if (err && !s->failed.err)
        s->failed = bst_err_keep(err);
    if (bad->item < 0)
        return;
    s->bad = bst_xgrow(s->bad, s->n_bad, &s->bad_room, sizeof *s->bad);
    s->bad[s->n_bad++] = *bad;
}

void bst_loader_start_slot(struct bst_loader *l, struct slot *s, struct range r)
{
    s->state = ASKED;
    s->first = r.first;
    s->n = r.n;
    s->next = s->done = s->n_bad = 0;
    s->failed.err = BST_OK;
    s->serial = l->next_serial++;
    pthread_cond_broadcast(&l->work);
}

void bst_loader_drop_waiting(struct bst_loader *l, int n)
{
    l->n_waiting -= n;
    memmove(l->waiting, l->waiting + n, (size_t)l->n_waiting * sizeof l->waiting[0]);
}

void bst_loader_free_slot(struct bst_loader *l, struct slot *s)
{
    s->state = FREE;
    if (l->n_waiting) {
        struct range r = l->waiting[0];
        bst_loader_drop_waiting(l, 1);
        bst_loader_start_slot(l, s, r);
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

bool bst_loader_fill_some(struct bst_loader *l, struct slot *s)
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
        bst_loader_free_slot(l, s);
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
            bst_loader_fill_some(l, s);
        else
            pthread_cond_wait(&l->work, &l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

enum bst_err bst_loader_start_threads(struct bst_loader *l)
{
    for (; l->n_threads < l->cfg.threads; l->n_threads++) {
        enum bst_err err = bst_thread_start(&l->threads[l->n_threads], worker, l);
        if (err)
            return bst_fail_in(err, "loader: %d of %d threads", l->n_threads + 1, l->cfg.threads);
    }
    return BST_OK;
}
