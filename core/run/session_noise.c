/* The noise scale of the run: measured in updates that have parts, told in metrics.jsonl and in the
 * status, kept in checkpoints so that a resumed run knows what the unbroken one would. */
#include <math.h>
#include <string.h>

#include "core/run/field.h"
#include "core/run/session_inner.h"

#define COST_SHARE 0.05 /* of the newest update in the smoothed cost */

bool bst_session_noise_wanted(const struct bst_session *s)
{
    return s->preset.noise_scale != BST_MEASURE_NONE;
}

static bool has_parts(const struct bst_session *s)
{
    return s->env.ranks > 1 || s->live.split.accumulate > 1;
}

static struct bst_noise_answer answer(const struct bst_session *s)
{
    struct bst_noise_answer a;
    bst_noise_ask(&s->at.noise, &a);
    /* What is there was measured under settings that are gone; it does not get better. */
    if (!bst_session_noise_wanted(s))
        a.state = BST_NOISE_OFF;
    else if (!has_parts(s))
        a.state = BST_NOISE_ONE_PART;
    return a;
}

static void show(struct bst_session *s, const struct bst_noise_answer *a)
{
    struct bst_status *st = &s->status;
    bool known = a->state == BST_NOISE_KNOWN;
    st->noise_scale = bst_metric_of(known ? a->scale : NAN);
    /* An interval too wide for an answer still says how wide. */
    bool bounded = known || a->state == BST_NOISE_WIDE;
    st->noise_low = bst_metric_of(bounded ? a->low : NAN);
    st->noise_high = bst_metric_of(bounded ? a->high : NAN);
    st->noise_efficiency =
        bst_metric_of(known ? bst_noise_efficiency(a->scale, 0, (double)s->live.batch) : NAN);
    st->noise_updates = a->n_pairs;
    bst_copy_text(st->noise_state, sizeof st->noise_state, bst_noise_state_text(a->state));
}

void bst_session_noise_follow(struct bst_session *s)
{
    const struct bst_split *split = &s->live.split;
    if (s->noise_batch == split->batch && s->noise_split == split->accumulate)
        return;
    s->noise_batch = split->batch;
    s->noise_split = split->accumulate;
    struct bst_noise_answer a = answer(s);
    show(s, &a);
}

static void count_cost(struct bst_session *s, const struct bst_update_result *res)
{
    struct bst_metric *cost = &s->status.noise_cost;
    if (!(res->noise.b_small > 0) || !(res->seconds > 0))
        return;
    double share = res->noise_seconds / res->seconds;
    *cost = bst_metric_of(cost->valid ? cost->value + COST_SHARE * (share - cost->value) : share);
}

static void write_record(struct bst_session *s, const struct bst_noise_answer *a, double part)
{
    struct bst_sb line;
    struct bst_json j;
    bool known = a->state == BST_NOISE_KNOWN;
    bst_sb_init(&line, 4096);
    bst_json_init(&j, &line);
    bst_json_open(&j, NULL, '{');
    bst_json_str(&j, "type", "noise");
    bst_json_uint(&j, "update", s->at.update);
    bst_json_uint(&j, "samples", s->at.samples);
    bst_json_num(&j, "epoch", (double)s->at.samples / (double)s->env.dataset);
    bst_json_num(&j, "noise_scale", known ? a->scale : NAN);
    bst_json_num(&j, "low", a->low > 0 ? a->low : NAN);
    bst_json_num(&j, "high", a->high > 0 ? a->high : NAN);
    bst_json_str(&j, "state", bst_noise_state_text(a->state));
    bst_json_num(&j, "grad_sq", a->grad_sq);
    bst_json_num(&j, "trace", a->trace);
    bst_json_uint(&j, "global_batch_size", s->live.batch);
    bst_json_num(&j, "part_size", part);
    bst_json_num(&j, "efficiency",
                 known ? bst_noise_efficiency(a->scale, 0, (double)s->live.batch) : NAN);
    bst_json_uint(&j, "updates_measured", a->n_pairs);
    bst_json_close(&j, '}');
    bst_metrics_add(s->metrics, line.data);
    bst_sb_fini(&line);
}

void bst_session_noise_add(struct bst_session *s, const struct bst_update_result *res)
{
    count_cost(s, res);
    if (res->skipped || !bst_noise_add(&s->at.noise, &res->noise))
        return;
    struct bst_noise_answer a = answer(s);
    write_record(s, &a, res->noise.b_small);
    show(s, &a);
    bst_advisor_noise(&s->advisor, &a);
}

void bst_session_noise_print(const struct bst_noise *n, struct bst_json *j)
{
    bst_json_open(j, "noise", '{');
    bst_json_uint(j, "pairs", n->n_pairs);
    bst_json_int(j, "newest", n->n_newest);
    bst_json_open(j, "blocks", '[');
    for (int i = 0; i < n->n_blocks; i++) {
        const double v[] = {n->blocks[i].weight, n->blocks[i].grad_sq, n->blocks[i].trace};
        bst_json_open(j, NULL, '[');
        for (int k = 0; k < 3; k++)
            bst_json_num(j, NULL, v[k]);
        bst_json_close(j, ']');
    }
    bst_json_close(j, ']');
    bst_json_close(j, '}');
}

/* What does not read as it was written starts anew: nothing but this instrument depends on it. */
void bst_session_noise_read(const json_t *state, struct bst_noise *n)
{
    struct bst_noise got = {.keep = n->keep};
    const json_t *block, *list = json_object_get(state, "blocks");
    size_t i;
    got.n_pairs = bst_json_count(state, "pairs", 0);
    got.n_newest = (int)bst_json_count(state, "newest", 0);
    if (json_array_size(list) > BST_NOISE_BLOCKS || got.n_newest > BST_NOISE_BLOCK)
        return;
    json_array_foreach(list, i, block)
    {
        double v[3];
        for (size_t k = 0; k < 3; k++) {
            const json_t *x = json_array_get(block, k);
            v[k] = json_is_number(x) ? json_number_value(x) : NAN;
            if (!isfinite(v[k]))
                return;
        }
        got.blocks[i] = (struct bst_noise_block){v[0], v[1], v[2]};
        got.n_blocks++;
    }
    *n = got;
}
