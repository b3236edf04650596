#include <inttypes.h>
#include <math.h>

#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/run/find.h"

void bst_fit_describe(const struct bst_fit_result *r, struct bst_sb *out)
{
    char span[32];
    if (!r->largest) {
        bst_sb_add(out, "nothing fits: a micro-batch of 1 does not run");
        return;
    }
    bst_sb_addf(out, "largest micro-batch %" PRId64 "%s", r->largest,
                r->largest == r->most ? " (no larger one was tried)" : "");
    if (r->fastest >= 0) {
        bst_text_rate(r->rows[r->fastest].rate, span);
        bst_sb_addf(out, ", fastest %" PRId64 " at %s samples/s", r->rows[r->fastest].micro, span);
    }
    if (r->knee >= 0)
        bst_sb_addf(out, ", knee %" PRId64, r->rows[r->knee].micro);
    if (r->split.batch)
        bst_sb_addf(out, ", batch %" PRIu64 " = %" PRIu64 " × %" PRIu64 " × %" PRIu64,
                    r->split.batch, r->split.micro, r->split.accumulate, r->split.ranks);
    if (r->update_seconds > 0) {
        bst_clock_span_fine(r->update_seconds, span, sizeof span);
        bst_sb_addf(out, ", an update about %s", span);
    }
    if (r->uneven)
        bst_sb_addf(out, "; %" PRId64 " to %" PRId64 " failed below it: memory is not monotone",
                    r->hole_least, r->hole_greatest);
}

void bst_lr_describe(const struct bst_lr_result *r, struct bst_sb *out)
{
    const struct bst_lr_suggestion *s = &r->s;
    if (s->doubt == BST_LR_NO_FALL) {
        bst_sb_addf(out, "unclear: %s", bst_lr_doubt_text(s->doubt));
        return;
    }
    bst_sb_addf(out, "rate %.3g at the steepest fall, %.3g in the valley, at batch %" PRId64,
                s->steepest, s->valley, r->batch);
    if (r->repeats > 1)
        bst_sb_addf(out, ", repeats %.3g … %.3g", s->lowest, s->highest);
    if (s->doubt)
        bst_sb_addf(out, "; unclear: %s", bst_lr_doubt_text(s->doubt));
}

static void print_row(const struct bst_fit_row *row, struct bst_json *j)
{
    bst_json_open(j, NULL, '{');
    bst_json_int(j, "micro_batch_size", row->micro);
    bst_json_str(j, "outcome", bst_fit_outcome_name(row->outcome));
    if (row->rate > 0)
        bst_json_num(j, "samples_per_sec", row->rate);
    else
        bst_json_null(j, "samples_per_sec");
    if (row->planned)
        bst_json_uint(j, "memory_planned_bytes", row->planned);
    else
        bst_json_null(j, "memory_planned_bytes");
    if (row->micro_seconds > 0) {
        bst_json_num(j, "micro_batch_seconds", row->micro_seconds);
        bst_json_num(j, "rest_seconds", row->rest_seconds);
    }
    bst_json_close(j, '}');
}

static void print_size_of(struct bst_json *j, const char *key, const struct bst_fit_result *r,
                          int row)
{
    if (row >= 0)
        bst_json_int(j, key, r->rows[row].micro);
    else
        bst_json_null(j, key);
}

void bst_fit_print(const struct bst_fit_result *r, struct bst_sb *out)
{
    struct bst_json j;
    bst_json_init(&j, out);
    bst_json_open(&j, NULL, '{');
    bst_json_str(&j, "type", "fit");
    if (r->cut)
        bst_json_bool(&j, "cut", true);
    if (r->cut && !r->largest)
        bst_json_null(&j, "largest");
    else
        bst_json_int(&j, "largest", r->largest);
    bst_json_int(&j, "asked_up_to", r->most);
    print_size_of(&j, "fastest", r, r->fastest);
    print_size_of(&j, "knee", r, r->knee);
    bst_json_bool(&j, "monotone", !r->uneven);
    if (r->uneven) {
        bst_json_open(&j, "failed_below", '[');
        bst_json_int(&j, NULL, r->hole_least);
        bst_json_int(&j, NULL, r->hole_greatest);
        bst_json_close(&j, ']');
    }
    if (r->split.batch) {
        bst_json_uint(&j, "global_batch_size", r->split.batch);
        bst_json_uint(&j, "micro_batch_size", r->split.micro);
        bst_json_uint(&j, "gradient_accumulation_steps", r->split.accumulate);
        bst_json_uint(&j, "devices", r->split.ranks);
    }
    if (r->update_seconds > 0)
        bst_json_num(&j, "update_seconds", r->update_seconds);
    bst_json_uint(&j, "memory_limit_bytes", r->limit);
    bst_json_int(&j, "updates", r->updates);
    bst_json_open(&j, "rows", '[');
    for (int i = 0; i < r->n_rows; i++)
        print_row(&r->rows[i], &j);
    bst_json_close(&j, ']');
    bst_json_close(&j, '}');
}

static void print_point(const struct bst_lr_result *r, int repeat, int i, struct bst_sb *out)
{
    struct bst_json j;
    bst_json_init(&j, out);
    bst_json_open(&j, NULL, '{');
    bst_json_str(&j, "type", "lrfind");
    bst_json_int(&j, "repeat", repeat + 1);
    bst_json_int(&j, "update", i + 1);
    bst_json_num(&j, "learning_rate", bst_lr_range_rate(&r->range, i));
    bst_json_num(&j, "loss", r->curves[repeat].loss[i]);
    bst_json_num(&j, "loss_smoothed", r->curves[repeat].smooth[i]);
    bst_json_close(&j, '}');
    bst_sb_addc(out, '\n');
}

static void print_rate(struct bst_json *j, const char *key, double rate)
{
    if (rate > 0)
        bst_json_num(j, key, rate);
    else
        bst_json_null(j, key);
}

void bst_lr_print(const struct bst_lr_result *r, struct bst_sb *out)
{
    struct bst_json j;
    for (int k = 0; k < r->repeats; k++)
        for (int i = 0; i < r->curves[k].n; i++)
            print_point(r, k, i, out);
    bst_json_init(&j, out);
    bst_json_open(&j, NULL, '{');
    bst_json_str(&j, "type", "lrfind-result");
    if (r->cut)
        bst_json_bool(&j, "cut", true);
    print_rate(&j, "steepest", r->s.steepest);
    print_rate(&j, "valley", r->s.valley);
    print_rate(&j, "repeats_lowest", r->s.lowest);
    print_rate(&j, "repeats_highest", r->s.highest);
    bst_json_int(&j, "repeats", r->repeats);
    bst_json_str(&j, "unclear",
                 r->cut       ? "interrupted"
                 : r->s.doubt ? bst_lr_doubt_text(r->s.doubt)
                              : NULL);
    bst_json_int(&j, "global_batch_size", r->batch);
    bst_json_int(&j, "updates", r->updates);
    bst_json_close(&j, '}');
    bst_sb_addc(out, '\n');
}

void bst_trial_describe(const struct bst_trial_result *r, struct bst_sb *out)
{
    const struct bst_trial_answer *a = &r->answer;
    bst_sb_addf(out, "%s", bst_trial_verdict_text(a->verdict));
    if (isfinite(a->difference))
        bst_sb_addf(out, ": loss %.4f without, %.4f with, difference %+.4f (%+.4f … %+.4f)%s",
                    a->loss[0], a->loss[1], a->difference, a->low, a->high,
                    a->verdict == BST_TRIAL_TRIFLE ? ", under 0.1 % of it" : "");
    bst_sb_addf(
        out, "; %d updates in %.3g s without, %d in %.3g s with, over the same %" PRIu64 " samples",
        r->updates[0], r->seconds[0], r->updates[1], r->seconds[1], r->samples);
}
