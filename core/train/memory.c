/* What a split asks of a rank, and whether it may have it. Bytes planned are bytes allocated. */
#include <inttypes.h>
#include <stdio.h>

#include "core/base/alloc.h"
#include "core/base/text.h"
#include "core/train/host.h"
#include "core/train/rank.h"

uint64_t bst_trainer_memory_default(int ranks)
{
    /* The rest is for what is not planned: libraries, stacks, the page cache of the data set. */
    return bst_host_memory() / 10 * 9 / (uint64_t)(ranks < 1 ? 1 : ranks);
}

void bst_trainer_set_limit(struct bst_trainer *t, uint64_t bytes)
{
    BST_ASSERT(!t->wide);
    t->limit = bytes;
}

static void add_size(struct split_plan *s, int micro)
{
    int at = 0;
    while (at < s->n_sizes && s->sizes[at] > micro)
        at++;
    if (at < s->n_sizes && s->sizes[at] == micro)
        return;
    BST_ASSERT(s->n_sizes < SPLIT_SIZES);
    for (int i = s->n_sizes++; i > at; i--)
        s->sizes[i] = s->sizes[i - 1];
    s->sizes[at] = micro;
}

void bst_memory_loader_cfg(const struct bst_trainer *t, enum bst_part part, int max_batch,
                           struct bst_loader_cfg *out)
{
    int threads = t->cfg.data.threads;
    /* Decoding at 224 is a hundredth of a ResNet's update on a CPU: one thread a rank keeps ahead.
     */
    if (threads <= 0 && bst_dataset_info(t->data)->decodes)
        threads = t->ranks_here;
    *out = (struct bst_loader_cfg){
        .ds = t->data,
        .part = part,
        .shuffle = t->cfg.shuffle,
        .seed = t->cfg.seed,
        .max_batch = max_batch,
        .slots = part == BST_EVAL         ? EVAL_SLOTS
                 : t->cfg.backend->commit ? TRAIN_SLOTS + BST_STEP_SLOTS - 1
                                          : TRAIN_SLOTS,
        .threads = threads > 0 ? (threads + t->ranks_here - 1) / t->ranks_here : 0,
    };
}

static int choose_eval_batch(const struct bst_trainer *t, int micro)
{
    int64_t n = bst_dataset_info(t->data)->n[BST_EVAL];
    int64_t b = t->cfg.eval_batch;
    if (b <= 0)
        b = micro > EVAL_BATCH_MOST / 2 ? EVAL_BATCH_MOST : 2 * micro;
    return (int)(b > n ? (n > 0 ? n : 1) : b);
}

/* The parameters' blocks, whatever the split. */
static struct bst_rank_memory blocks_table(const struct bst_trainer *t)
{
    const struct bst_param_table *p = t->ranks[0].params;
    struct bst_rank_memory m = {
        .weights = p->trained_bytes + p->state_bytes,
        .gradients = p->trained_bytes,
        .optimizer = t->optim_bytes,
        .staged = p->state_bytes,
        .hold = p->trained_bytes + p->state_bytes + t->optim_bytes,
        .limit = t->limit,
    };
    m.total = m.weights + m.gradients + m.optimizer + m.staged + m.hold;
    return m;
}

enum bst_err bst_memory_plan(const struct bst_trainer *t, int64_t batch, int k,
                             struct split_plan *out)
{
    if (batch < 1 || k < 1)
        return bst_fail(BST_E_ARG, "a batch of %" PRId64 " in %d micro-batches", batch, k);
    struct bst_split_ask ask = {.batch = (uint64_t)batch,
                                .ranks = (uint64_t)t->cfg.ranks,
                                .accumulate = (uint64_t)k,
                                .may_be_empty = true};
    *out = (struct split_plan){.asked_batch = batch, .asked_micros = k};
    BST_TRY(bst_split_make(&ask, &out->split));
    for (uint64_t r = 0; r < out->split.ranks; r++)
        for (uint64_t i = 0; i < bst_split_n_micro(&out->split, r); i++)
            add_size(out, (int)bst_split_micro(&out->split, r, i));
    out->accumulate = out->split.accumulate > 1;
    out->eval_batch = choose_eval_batch(t, out->sizes[0]);
    struct bst_loader_cfg cfg;
    bst_memory_loader_cfg(t, BST_TRAIN, out->sizes[0], &cfg);
    size_t train = bst_loader_bytes_for(&cfg);
    if (t->cfg.backend->input_bytes && train != SIZE_MAX)
        out->input = BST_STEP_SLOTS * t->cfg.backend->input_bytes(train / (size_t)cfg.slots);
    bst_memory_loader_cfg(t, BST_EVAL, out->eval_batch, &cfg);
    if (!bst_add_size(train, bst_loader_bytes_for(&cfg), &out->loader))
        return bst_fail(BST_E_NOMEM, "a batch of %" PRId64 ": its images alone are too many bytes",
                        batch);
    uint64_t others =
        blocks_table(t).total + (t->cfg.backend->own_memory ? out->input : out->loader);
    out->arena_limit = !t->limit ? SIZE_MAX : t->limit > others ? t->limit - others : 0;
    return BST_OK;
}

void bst_memory_table(const struct bst_trainer *t, const struct split_plan *s,
                      struct bst_rank_memory *out)
{
    *out = blocks_table(t);
    out->activations = s->need.activations;
    out->arena = s->need.arena;
    out->peak = s->need.peak;
    out->n_again = s->need.n_again;
    out->again_share = s->need.again_share;
    out->loader = t->cfg.backend->own_memory ? s->input : s->loader;
    if (t->cfg.backend->own_memory)
        out->host = s->loader;
    out->total += out->arena + out->loader;
}

enum bst_err bst_memory_check(const struct bst_trainer *t, const struct split_plan *s)
{
    struct bst_rank_memory m;
    char need[32], limit[32];
    bst_memory_table(t, s, &m);
    if (!t->limit || m.total <= t->limit)
        return BST_OK;
    bst_text_bytes(m.total, need);
    bst_text_bytes(t->limit, limit);
    return bst_fail(BST_E_NOMEM,
                    "a batch of %" PRIu64 " in micro-batches of %d needs %s (%" PRIu64
                    " bytes) on a rank that may have %s (%" PRIu64 " bytes)",
                    s->split.batch, s->sizes[0], need, m.total, limit, t->limit);
}
