/* From one split to another: programs first, beside the old ones; then the old arena is unmapped
 * and the new one mapped, never both. */
#include <inttypes.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/train/rank.h"
#include "core/tune/memory_law.h"

static enum bst_err need(struct rank *k, const struct program_ask *ask)
{
    struct program_need *n = &k->need;
    struct bst_program *p = NULL;
    BST_TRY(bst_rank_program(k, ask, &p));
    if (p->arena_bytes > n->arena) {
        n->arena = p->arena_bytes;
        n->peak = p->peak;
    }
    if (p->activation_bytes > n->activations)
        n->activations = p->activation_bytes;
    if (p->n_again > n->n_again) {
        n->n_again = p->n_again;
        n->again_share = p->again_share;
    }
    return BST_OK;
}

/* Programs of a plan, and what they need. Nothing in force is touched. */
static enum bst_err compile_job(struct rank *k, void *arg)
{
    const struct split_plan *s = arg;
    const struct program_ask eval = {.micro = s->eval_batch};
    k->need = (struct program_need){0};
    for (int i = 0; i < s->n_sizes; i++) {
        struct program_ask ask = bst_ask_training(s, s->sizes[i]);
        BST_TRY(need(k, &ask));
    }
    return k->t->cfg.eval_batch > 0 ? need(k, &eval) : BST_OK;
}

static enum bst_err probe_job(struct rank *k, void *arg)
{
    const struct split_plan *s = arg;
    struct program_ask ask = bst_ask_training(s, PROBE_MICRO);
    ask.arena_limit = 0; /* as little as recomputation can do with */
    k->need = (struct program_need){0};
    return need(k, &ask);
}

/* Far past the limit a library may refuse sizes for reasons of its own, and compiling takes its
 * time: what a small micro-batch needs, scaled up, tells enough. Nothing near the limit is decided
 * here. */
static enum bst_err refuse_far_over(struct bst_trainer *t, struct split_plan *s)
{
    struct bst_rank_memory m;
    char need_text[32], limit_text[32];
    if (!t->limit || s->sizes[0] < 8 * PROBE_MICRO)
        return BST_OK;
    BST_TRY(bst_ranks_first(t, probe_job, s));
    s->need.arena = t->ranks[0].need.arena / PROBE_MICRO * (size_t)s->sizes[0];
    bst_memory_table(t, s, &m);
    if (m.total - m.arena / 2 <= t->limit)
        return BST_OK;
    bst_text_bytes(m.total, need_text);
    bst_text_bytes(t->limit, limit_text);
    return bst_fail(BST_E_NOMEM,
                    "a batch of %" PRIu64
                    " in micro-batches of %d needs about %s on a rank that may "
                    "have %s",
                    s->split.batch, s->sizes[0], need_text, limit_text);
}

/* `all`: by every rank, for the split that is to come; else each process's first. */
static enum bst_err make_plan(struct bst_trainer *t, int64_t batch, int micro_batches, bool all,
                              struct split_plan *s)
{
    *s = (struct split_plan){0};
    if (atomic_load(&t->broken))
        return bst_fail(BST_E_STATE, "the trainer's state was lost in an update that failed");
    BST_TRY(bst_memory_plan(t, batch, micro_batches, s));
    BST_TRY(refuse_far_over(t, s));
    BST_TRY(all ? bst_ranks_all(t, compile_job, s) : bst_ranks_first(t, compile_job, s));
    /* Ranks are alike; where machines are not, this is of the one that needs most. */
    s->need = t->ranks[0].need;
    return bst_memory_check(t, s);
}

enum bst_err bst_trainer_plan(struct bst_trainer *t, int64_t batch, int micro_batches,
                              struct bst_rank_memory *out)
{
    const struct crew_request r = {.op = CREW_PLAN, .u.split = {batch, micro_batches}};
    struct split_plan s = {0};
    BST_TRY(bst_crew_lead(t, &r));
    enum bst_err err = make_plan(t, batch, micro_batches, false, &s);
    if (!err || (err == BST_E_NOMEM && s.need.arena))
        bst_memory_table(t, &s, out);
    return err;
}

/* k micro-batches of this size a rank. */
static enum bst_err plan_of_micro(struct bst_trainer *t, int micro, int k, struct split_plan *s)
{
    return make_plan(t, (int64_t)micro * k * t->cfg.ranks, k, false, s);
}

/* An arena is all but linear in the micro-batch: a straight line between what fits and what does
 * not lands next to the answer, and both sides of it are then tried. With recomputation on demand
 * what fits comes to about the limit whatever it is, and the line soon tells nothing. */
static int next_micro(const struct bst_trainer *t, const struct bst_memory_point *fits,
                      const struct bst_memory_point *fails, int tries)
{
    struct bst_memory_law line;
    bool on_demand = t->cfg.recompute.kind == BST_RECOMPUTE_AUTO;
    int low = (int)fits->batch, high = (int)fails->batch, n = low + (high - low) / 2;
    if (tries < (on_demand ? 3 : 8) && bst_memory_law_fit(fits, fails, &line))
        n = (int)bst_memory_law_largest(&line, (double)t->limit, high);
    return n <= low ? low + 1 : n >= high ? high - 1 : n;
}

enum bst_err bst_trainer_largest(struct bst_trainer *t, int most, int k, int *out)
{
    const struct crew_request r = {.op = CREW_LARGEST, .u.largest = {most, k}};
    struct split_plan s = {0};
    struct bst_memory_point fits = {0}, fails = {0};
    *out = 0;
    if (most < 1)
        return bst_fail(BST_E_ARG, "a largest micro-batch of %d", most);
    BST_TRY(bst_crew_lead(t, &r));
    for (int n = most, tries = 1; fits.batch + 1 != fails.batch && fits.batch < most; tries++) {
        enum bst_err err = plan_of_micro(t, n, k, &s);
        if (err && err != BST_E_NOMEM)
            return err;
        struct bst_rank_memory m;
        bst_memory_table(t, &s, &m);
        *(err ? &fails : &fits) = (struct bst_memory_point){n, (double)m.total};
        if (fits.batch == most)
            break;
        n = next_micro(t, &fits, &fails, tries);
    }
    *out = (int)fits.batch;
    return *out ? BST_OK : plan_of_micro(t, 1, k, &s);
}

enum bst_err bst_trainer_largest_micro(struct bst_trainer *t, int most, int *out)
{
    /* Two micro-batches a rank: whatever accumulation asks for beyond a single one is in. */
    return bst_trainer_largest(t, most, 2, out);
}

enum bst_err bst_rank_map_arena(struct rank *k, size_t bytes)
{
    const struct bst_backend *b = k->t->cfg.backend;
    if (k->arena_bytes == bytes)
        return BST_OK;
    b->free(k->be, k->arena, k->arena_bytes);
    k->arena = NULL;
    k->arena_bytes = 0;
    BST_TRY(b->alloc(k->be, bytes, &k->arena));
    k->arena_bytes = bytes;
    return BST_OK;
}

static enum bst_err map_input(struct rank *k, size_t bytes)
{
    const struct bst_backend *b = k->t->cfg.backend;
    if (k->input_bytes == bytes)
        return BST_OK;
    b->free(k->be, k->input, k->input_bytes);
    k->input = NULL;
    k->input_bytes = 0;
    BST_TRY(b->alloc(k->be, bytes, &k->input));
    k->input_bytes = bytes;
    return BST_OK;
}

enum bst_err bst_rank_make_loader(struct rank *k, enum bst_part part, int batch)
{
    struct bst_loader_cfg cfg;
    if (k->loader[part] && k->loader_batch[part] == batch)
        return BST_OK;
    bst_loader_free(k->loader[part]);
    k->loader[part] = NULL;
    bst_memory_loader_cfg(k->t, part, batch, &cfg);
    cfg.backend = k->t->cfg.backend;
    cfg.be = k->be;
    k->loader_batch[part] = batch;
    return bst_loader_new(&cfg, &k->loader[part]);
}

static enum bst_err swap_job(struct rank *k, void *arg)
{
    const struct split_plan *s = arg;
    k->eval_batch = 0;
    BST_TRY(bst_rank_take_back(k, 0));
    BST_TRY(bst_rank_map_arena(k, s->need.arena));
    BST_TRY(map_input(k, s->input));
    BST_TRY(bst_rank_make_loader(k, BST_TRAIN, s->sizes[0]));
    return bst_rank_make_loader(k, BST_EVAL, s->eval_batch);
}

static enum bst_err drop_job(struct rank *k, void *arg)
{
    (void)arg;
    bst_rank_drop_split(k);
    return BST_OK;
}

void bst_rank_drop_split(struct rank *k)
{
    /* A device that fails now reads nothing more, and one that hangs keeps what it has. */
    k->n_lent = bst_rank_take_back(k, 0) ? 0 : k->n_lent;
    for (int part = 0; part < 2; part++) {
        bst_loader_free(k->loader[part]);
        k->loader[part] = NULL;
        k->loader_batch[part] = 0;
    }
    if (k->arena)
        k->t->cfg.backend->free(k->be, k->arena, k->arena_bytes);
    k->arena = NULL;
    k->arena_bytes = 0;
    if (k->input)
        k->t->cfg.backend->free(k->be, k->input, k->input_bytes);
    k->input = NULL;
    k->input_bytes = 0;
}

/* The old split again after a swap that failed; the text of the failure stays. */
static enum bst_err swap_back(struct bst_trainer *t, enum bst_err why)
{
    const struct bst_failure failure = bst_err_keep(why);
    struct split_plan old = t->plan;
    enum bst_err err = bst_ranks_all(t, drop_job, NULL);
    if (!err && old.split.batch)
        err = bst_ranks_all(t, swap_job, &old);
    if (err) {
        t->plan = (struct split_plan){0};
        return bst_fail_in(err, "%s; and going back failed", failure.text);
    }
    return bst_err_restore(&failure);
}

enum bst_err bst_swap_split(struct bst_trainer *t, int64_t batch, int micro_batches,
                            double *replan_seconds)
{
    struct split_plan s;
    double start = bst_clock_now();
    if (t->cfg.plan_only)
        return bst_fail(BST_E_STATE, "this trainer only plans");
    BST_TRY(bst_none_sent(t));
    BST_TRY(make_plan(t, batch, micro_batches, true, &s));
    enum bst_err err = bst_ranks_all(t, swap_job, &s);
    if (err)
        return swap_back(t, err);
    t->plan = s;
    if (replan_seconds)
        *replan_seconds = bst_clock_now() - start;
    return BST_OK;
}

enum bst_err bst_trainer_set_split(struct bst_trainer *t, int64_t batch, int micro_batches,
                                   double *replan_seconds)
{
    const struct crew_request r = {.op = CREW_SPLIT, .u.split = {batch, micro_batches}};
    BST_TRY(bst_crew_lead(t, &r));
    return bst_swap_split(t, batch, micro_batches, replan_seconds);
}
