/* The largest micro-batch that trains here. The plan proposes, a real update decides: forward,
 * backward and optimizer over two micro-batches a rank, so that accumulation is in, then a batch of
 * evaluation. Throughput is measured afterwards, at sizes known to run. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "core/base/order.h"
#include "core/base/text.h"
#include "core/run/find_inner.h"
#include "core/tune/batch_search.h"
#include "core/tune/throughput.h"

enum { TIMED_LEAST = 1, TIMED_MOST = 7 };
#define TIMED_SECONDS 0.6 /* of updates at one size, when more than TIMED_LEAST fit into it */

struct fit {
    const struct bst_find *f;
    struct bst_fit_result *out;
};

static enum bst_fit_outcome outcome_of(enum bst_err err)
{
    return !err ? BST_FIT_RAN : err == BST_E_NOMEM ? BST_FIT_NO_MEMORY : BST_FIT_REFUSED;
}

const char *bst_fit_outcome_name(enum bst_fit_outcome o)
{
    static const char *const names[] = {"ran", "does not fit", "refused"};
    return names[o];
}

/* The row of this size, made at its place when there is none; NULL when the table is full. */
static struct bst_fit_row *row_of(struct bst_fit_result *r, int64_t micro)
{
    int at = 0;
    while (at < r->n_rows && r->rows[at].micro < micro)
        at++;
    if (at < r->n_rows && r->rows[at].micro == micro)
        return &r->rows[at];
    if (r->n_rows == BST_FIT_ROWS)
        return NULL;
    for (int i = r->n_rows++; i > at; i--)
        r->rows[i] = r->rows[i - 1];
    r->rows[at] = (struct bst_fit_row){.micro = micro};
    return &r->rows[at];
}

static void note_row(struct fit *s, int64_t micro, enum bst_err err, uint64_t planned)
{
    struct bst_fit_row *row = row_of(s->out, micro);
    if (!row)
        return;
    row->outcome = outcome_of(err);
    row->planned = planned ? planned : row->planned;
}

/* An update of k micro-batches a rank, each of this size; counted where it ran. */
static enum bst_err update(struct fit *s, int64_t micro, int k, struct bst_update_result *res)
{
    struct bst_update_req req = s->f->req;
    req.batch = micro * k * s->f->ranks;
    req.micro_batches = k;
    req.update = 0;
    BST_TRY(bst_trainer_update(s->f->trainer, &req, s->f->stop, res));
    if (res->samples_used != req.batch || res->micro_largest != micro || res->micro_used != k)
        return bst_fail(BST_E_STATE,
                        "an update of %d micro-batches of %" PRId64 " ran %d of up to %d instead",
                        k, micro, res->micro_used, res->micro_largest);
    s->out->updates++;
    return BST_OK;
}

static enum bst_err run_size(struct fit *s, int64_t micro, uint64_t *planned)
{
    struct bst_rank_memory m = {0};
    struct bst_update_result res;
    struct bst_eval_result eval;
    enum bst_err err = bst_trainer_plan(s->f->trainer, micro * 2 * s->f->ranks, 2, &m);
    *planned = m.total;
    s->out->limit = m.limit ? m.limit : s->out->limit;
    if (!err)
        err = update(s, micro, 2, &res);
    if (!err && bst_trainer_data(s->f->trainer)->n[BST_EVAL] > 0)
        err = bst_trainer_eval_some(s->f->trainer, s->f->stop, &eval);
    return err;
}

static enum bst_err try_sizes(struct fit *s, struct bst_batch_search *search)
{
    int64_t n;
    while ((n = bst_batch_search_next(search)) != 0) {
        uint64_t planned;
        BST_TRY(bst_find_stopped(s->f));
        bst_find_say(s->f, "micro-batch %" PRId64 ": trying", n);
        enum bst_err err = run_size(s, n, &planned);
        if (err != BST_E_CANCELLED)
            note_row(s, n, err, planned);
        if (!err || err == BST_E_NOMEM)
            bst_find_say(s->f, "micro-batch %" PRId64 ": %s", n,
                         bst_fit_outcome_name(outcome_of(err)));
        BST_TRY(bst_batch_search_told(search, n, err));
    }
    return BST_OK;
}

static enum bst_err measure(struct fit *s, int64_t micro, struct bst_fit_row *out)
{
    double each[TIMED_MOST], inside[TIMED_MOST], rest[TIMED_MOST], spent = 0;
    struct bst_update_result res;
    int n = 0;
    /* The first one compiles, and touches its pages for the first time. */
    BST_TRY(update(s, micro, 1, &res));
    while (n < TIMED_LEAST || (n < TIMED_MOST && spent < TIMED_SECONDS)) {
        BST_TRY(update(s, micro, 1, &res));
        each[n] = res.seconds;
        inside[n] = res.busy_most;
        rest[n++] = fmax(res.seconds - res.busy_most - res.data_wait_seconds, 0);
        spent += res.seconds;
    }
    out->rate = (double)res.samples_used / bst_median(each, (size_t)n);
    out->micro_seconds = bst_median(inside, (size_t)n);
    out->rest_seconds = bst_median(rest, (size_t)n);
    return BST_OK;
}

/* Memory and batch norm may refuse a size below the answer: that is a row of the table. Anything
 * else is an error of the search. */
static enum bst_err measure_row(struct fit *s, int64_t micro)
{
    struct bst_rank_memory m = {0};
    struct bst_fit_row got = {0};
    enum bst_err err = bst_trainer_plan(s->f->trainer, micro * s->f->ranks, 1, &m);
    if (!err)
        err = measure(s, micro, &got);
    if (err && err != BST_E_NOMEM && err != BST_E_SHAPE)
        return err;
    struct bst_fit_row *row = row_of(s->out, micro);
    if (!row)
        return BST_OK;
    bool ran_before = row->planned && row->outcome == BST_FIT_RAN;
    if (err && !ran_before)
        row->outcome = outcome_of(err);
    if (!row->planned)
        row->planned = m.total;
    row->rate = got.rate;
    row->micro_seconds = got.micro_seconds;
    row->rest_seconds = got.rest_seconds;
    if (!err) {
        char rate[32];
        bst_text_rate(got.rate, rate);
        bst_find_say(s->f, "micro-batch %" PRId64 ": %s samples/s", micro, rate);
    }
    return BST_OK;
}

static enum bst_err measure_all(struct fit *s)
{
    for (int64_t n = 1; n < s->out->largest; n *= 2) {
        BST_TRY(bst_find_stopped(s->f));
        BST_TRY(measure_row(s, n));
    }
    return s->out->largest ? measure_row(s, s->out->largest) : BST_OK;
}

/* Of the split, whose micro-batches may be a little smaller than the one that was measured. */
static double update_seconds(const struct bst_fit_result *r)
{
    for (int i = 0; i < r->n_rows; i++)
        if (r->rows[i].micro == r->largest && r->rows[i].micro_seconds > 0)
            return r->rows[i].micro_seconds * (double)r->split.micro / (double)r->largest *
                       (double)r->split.accumulate +
                   r->rows[i].rest_seconds;
    return 0;
}

static void judge(struct bst_fit_result *r, const struct bst_find *f, int64_t global_batch)
{
    struct bst_throughput rows[BST_FIT_ROWS];
    for (int i = 0; i < r->n_rows; i++)
        rows[i] = (struct bst_throughput){r->rows[i].micro, r->rows[i].rate};
    r->fastest = bst_throughput_fastest(rows, r->n_rows);
    r->knee = bst_throughput_knee(rows, r->n_rows);
    r->dip = bst_throughput_dip(rows, r->n_rows, r->knee, &r->dip_next);
    struct bst_split_ask ask = {
        .batch = (uint64_t)global_batch, .ranks = (uint64_t)f->ranks, .cap = (uint64_t)r->largest};
    if (r->largest && global_batch > 0 && bst_split_make(&ask, &r->split))
        r->split = (struct bst_split){0};
    r->update_seconds = r->split.batch ? update_seconds(r) : 0;
}

static enum bst_err search_all(struct fit *s)
{
    struct bst_batch_search search;
    struct bst_fit_result *r = s->out;
    int start = 0;
    enum bst_err err = bst_trainer_largest_micro(s->f->trainer, (int)r->most, &start);
    if (err && err != BST_E_NOMEM)
        return err;
    bst_batch_search_init(&search, start, r->most);
    BST_TRY(try_sizes(s, &search));
    r->largest = search.largest;
    r->uneven = bst_batch_search_hole(&search, &r->hole_least, &r->hole_greatest);
    return measure_all(s);
}

enum bst_err bst_find_fit(const struct bst_find *f, const struct bst_fit_cfg *cfg,
                          struct bst_fit_result *out)
{
    struct bst_kept *kept;
    struct fit s = {.f = f, .out = out};
    *out = (struct bst_fit_result){.most = cfg->most ? cfg->most : BST_FIT_MOST,
                                   .fastest = -1,
                                   .knee = -1,
                                   .dip = -1,
                                   .restored = true};
    if (out->most < 1 || out->most > INT32_MAX / 2 / f->ranks)
        return bst_fail(BST_E_RANGE, "a largest micro-batch of %" PRId64, out->most);
    BST_TRY(bst_find_begin(f, &kept));
    enum bst_err err = search_all(&s);
    if (!err)
        judge(out, f, cfg->global_batch);
    out->cut = err == BST_E_CANCELLED;
    return bst_find_end(f, kept, err, &out->restored);
}
