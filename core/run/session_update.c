#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/run/field.h"
#include "core/run/request.h"
#include "core/run/session_inner.h"

enum { NONFINITE_ENDS = 10 };
#define SAY_AGAIN_SECONDS 60.0
/* Share of the newest update in the mean rates that are shown, and that the time left is worked out
 * from. metrics.jsonl has each update's own. */
#define RATE_SHARE 0.1
/* The same of the mean loss that a rewind is advised by. */
#define LOSS_SHARE 0.1

static void metrics_head(const struct bst_session *s, const char *type, struct bst_json *j)
{
    bst_json_open(j, NULL, '{');
    bst_json_str(j, "type", type);
    bst_json_uint(j, "update", s->at.update);
    bst_json_uint(j, "samples", s->at.samples);
    bst_json_num(j, "epoch", (double)s->at.samples / (double)s->env.dataset);
}

/* The reason of a null, once a line whatever the number of nulls. */
static void say_why(struct bst_json *j, double a, double b)
{
    if (isnan(a) || isnan(b))
        bst_json_str(j, "nonfinite", "nan");
    else if (isinf(a) || isinf(b))
        bst_json_str(j, "nonfinite", "inf");
}

static void write_update(struct bst_session *s, const struct bst_update_req *req,
                         const struct bst_split *split, const struct bst_update_result *res)
{
    struct bst_sb line;
    struct bst_json j;
    bst_sb_init(&line, 4096);
    bst_json_init(&j, &line);
    metrics_head(s, "update", &j);
    bst_json_num(&j, "loss", res->loss);
    bst_json_num(&j, "learning_rate", req->lr);
    bst_json_num(&j, "grad_norm", res->grad_norm);
    say_why(&j, res->loss, res->grad_norm);
    bst_json_int(&j, "global_batch_size", req->batch);
    bst_json_uint(&j, "micro_batch_size", split->micro);
    bst_json_uint(&j, "gradient_accumulation_steps", split->accumulate);
    bst_json_num(&j, "samples_per_sec", (double)req->batch / res->seconds);
    if (res->tokens_used) {
        bst_json_int(&j, "tokens", res->tokens_used);
        bst_json_num(&j, "tokens_per_sec", (double)res->tokens_used / res->seconds);
    }
    if (res->positions_used)
        bst_json_num(&j, "padding", 1 - (double)res->tokens_used / (double)res->positions_used);
    bst_json_num(&j, "loss_scale", res->loss_scale);
    bst_json_num(&j, "accuracy", res->accuracy);
    if (!isnan(res->exact))
        bst_json_num(&j, "exact_match", res->exact);
    bst_json_num(&j, "elapsed", bst_session_elapsed(s));
    bst_json_num(&j, "data_wait", res->data_wait_seconds);
    if (res->skipped)
        bst_json_bool(&j, "skipped", true);
    if (res->clipped)
        bst_json_bool(&j, "clipped", true);
    bst_json_close(&j, '}');
    bst_metrics_add(s->metrics, line.data);
    bst_sb_fini(&line);
}

static void watch_metrics(struct bst_session *s)
{
    const char *why;
    bst_metrics_retry(s->metrics);
    bool failing = bst_metrics_failing(s->metrics, &why);
    double now = bst_clock_now();
    if (failing && !s->metrics_failing)
        s->metrics_failing_since = now;
    if (failing && (!s->metrics_failing || now - s->metrics_said >= SAY_AGAIN_SECONDS)) {
        s->metrics_said = now;
        bst_session_note(s, BST_DIAG_METRICS_FAILING,
                         "metrics.jsonl cannot be written: %s (for %.0f s)", why,
                         now - s->metrics_failing_since);
    }
    if (!failing && s->metrics_failing)
        bst_session_note(s, BST_DIAG_NONE, "metrics.jsonl is written again, after %.0f s",
                         now - s->metrics_failing_since);
    s->metrics_failing = failing;
}

/* Ten in a row end the run. */
static enum bst_err count_nonfinite(struct bst_session *s, const struct bst_update_result *res)
{
    if (res->skipped)
        s->at.skipped++;
    if (!res->nonfinite) {
        s->at.nonfinite_row = 0;
        return BST_OK;
    }
    s->at.nonfinite++;
    s->at.nonfinite_row++;
    char scale[48] = "";
    if (res->loss_scale != 1)
        snprintf(scale, sizeof scale, "; its loss scale was %g", res->loss_scale);
    bst_session_note(s, BST_DIAG_NONFINITE_GRADIENT, "update %llu is not finite%s%s, skipped%s",
                     (unsigned long long)s->at.update, res->first_nonfinite ? ", first in " : "",
                     res->first_nonfinite ? res->first_nonfinite : "", scale);
    /* Those that were on their way by then only add to it. */
    if (s->at.nonfinite_row != NONFINITE_ENDS)
        return BST_OK;
    bst_session_note(s, BST_DIAG_TEN_NONFINITE, "%d updates in a row were not finite",
                     s->at.nonfinite_row);
    return bst_fail(BST_E_DIVERGED, "BST-102: ten updates in a row were not finite");
}

/* What is worth a remark, and the advice that comes of it or of anything else. A remark that has
 * become advice is said as that alone: one event, one code. */
static void watch_update(struct bst_session *s, const struct bst_update_result *res)
{
    struct bst_watch_update seen = {
        .grad_norm = res->grad_norm,
        .seconds = res->seconds,
        .data_wait_seconds = res->data_wait_seconds,
        .n_zero_layers = res->n_zero,
    };
    enum bst_diag codes[BST_N_WATCH_RULES];
    char text[BST_N_WATCH_RULES][128];
    int n = bst_watch_add(&s->watch, &seen, codes);
    for (int i = 0; i < n; i++) {
        bst_watch_text(&s->watch, codes[i], text[i]);
        bst_advisor_remark(&s->advisor, codes[i], text[i]);
    }
    bst_session_advise(s, res);
    for (int i = 0; i < n; i++)
        if (!bst_session_advised(s, codes[i]))
            bst_session_note(s, codes[i], "update %llu: %s", (unsigned long long)s->at.update,
                             text[i]);
}

/* Each is told of once, whatever the number of epochs. */
static void say_bad_samples(struct bst_session *s)
{
    struct bst_data_bad bad;
    for (; bst_trainer_bad_sample(s->trainer, s->n_bad_said, &bad); s->n_bad_said++)
        bst_session_note(s, BST_DIAG_BAD_IMAGES, "another image stands in for %s", bad.reason);
}

static void follow_rate(double *mean, double rate)
{
    *mean = *mean > 0 ? *mean + RATE_SHARE * (rate - *mean) : rate;
}

static void show_update(struct bst_session *s, const struct bst_update_req *req,
                        const struct bst_update_result *res)
{
    struct bst_status *st = &s->status;
    follow_rate(&s->rate_mean, (double)req->batch / res->seconds);
    follow_rate(&s->tokens_mean, (double)res->tokens_used / res->seconds);
    st->learning_rate = bst_metric_of(req->lr);
    st->loss = bst_metric_of(res->loss);
    st->train_accuracy = bst_metric_of(res->accuracy);
    st->grad_norm = bst_metric_of(res->grad_norm);
    st->data_wait = bst_metric_of(res->data_wait_seconds / res->seconds);
    bst_session_publish(s, false);
    if (s->cfg.news) {
        st->update = s->at.update;
        st->samples = s->at.samples;
        st->epoch = (double)s->at.samples / (double)s->env.dataset;
        bst_session_rates(s);
        s->cfg.news(s->cfg.arg, BST_NEWS_UPDATE, st, "");
    }
}

static void follow_loss(struct bst_session *s, double loss)
{
    s->loss_last = loss;
    if (isfinite(loss))
        s->loss_mean =
            isfinite(s->loss_mean) ? s->loss_mean + LOSS_SHARE * (loss - s->loss_mean) : loss;
}

/* An update that has happened. */
static enum bst_err see_to(struct bst_session *s, const struct bst_session_sent *u,
                           const struct bst_update_result *res)
{
    const struct bst_update_req *req = &u->req;
    s->n_dropped = 0;
    s->at.update++;
    s->at.samples += u->split.batch;
    /* A skipped update has left the velocities alone. */
    if (!res->skipped)
        s->at.momentum_factor = 1;
    follow_loss(s, res->loss);
    if (s->pending)
        bst_session_confirm(s, req, &u->split, res);
    /* A change that could not be kept took its update with it. */
    if (s->at.update != req->update)
        return BST_OK;
    write_update(s, req, &u->split, res);
    if (res->alone)
        bst_session_note(s, BST_DIAG_NONE,
                         "update %llu: a device failed before it could say its loss; what is shown "
                         "is that of the first device alone",
                         (unsigned long long)s->at.update);
    bst_session_noise_add(s, res);
    if (req->layers)
        bst_session_show_layers(s);
    watch_metrics(s);
    watch_update(s, res);
    say_bad_samples(s);
    show_update(s, req, res);
    return count_nonfinite(s, res);
}

/* --- updates on their way --- */

uint64_t bst_session_sent_to(const struct bst_session *s)
{
    uint64_t samples = s->at.samples;
    for (int i = 0; i < s->n_sent; i++)
        samples += s->sent[i].split.batch;
    return samples;
}

static enum bst_err take_oldest(struct bst_session *s)
{
    struct bst_update_result res;
    const struct bst_session_sent u = s->sent[0];
    bst_server_busy(s->server, true);
    enum bst_err err = bst_trainer_take(s->trainer, &res);
    bst_server_busy(s->server, false);
    if (err) {
        s->n_sent = 0;
        return bst_session_fault(s, err);
    }
    memmove(s->sent, s->sent + 1, (size_t)--s->n_sent * sizeof *s->sent);
    return see_to(s, &u, &res);
}

/* All of them have happened or not, whatever the first of them came to. */
enum bst_err bst_session_settle(struct bst_session *s)
{
    struct bst_failure first = {.err = BST_OK};
    while (s->n_sent) {
        enum bst_err err = take_oldest(s);
        if (err && !first.err)
            first = bst_err_keep(err);
    }
    return bst_err_restore(&first);
}

/* What is known of those before it comes first; the same failure may be what one of them met. */
static enum bst_err not_sent(struct bst_session *s, enum bst_err err)
{
    const struct bst_failure why = bst_err_keep(err);
    bool others = s->n_sent > 0;
    BST_TRY(bst_session_settle(s));
    if (others && s->n_dropped)
        return BST_OK;
    return bst_session_fault(s, bst_err_restore(&why));
}

static enum bst_err send(struct bst_session *s, const struct bst_session_sent *u)
{
    bst_server_busy(s->server, true);
    enum bst_err err = bst_trainer_send(s->trainer, &u->req, &s->interrupt);
    bst_server_busy(s->server, false);
    if (err)
        return err == BST_E_CANCELLED ? err : not_sent(s, err);
    s->sent[s->n_sent++] = *u;
    if (s->n_sent <= bst_trainer_late(s->trainer))
        return BST_OK;
    err = take_oldest(s);
    if (!err)
        return BST_OK;
    /* The run ends: where it stands is behind all that has happened. */
    const struct bst_failure why = bst_err_keep(err);
    enum bst_err rest = bst_session_settle(s);
    return rest ? rest : bst_err_restore(&why);
}

static enum bst_err update_at_once(struct bst_session *s, const struct bst_session_sent *u)
{
    struct bst_update_result res;
    bst_server_busy(s->server, true);
    enum bst_err err = bst_trainer_update(s->trainer, &u->req, &s->interrupt, &res);
    bst_server_busy(s->server, false);
    if (err == BST_E_CANCELLED)
        return err;
    if (err && s->pending && bst_trainer_intact(s->trainer)) {
        char why[400];
        bst_copy_text(why, sizeof why, bst_err_text());
        bst_session_take_back(s, "refused", BST_DIAG_CHANGE_ROLLED_BACK, why);
        return BST_OK;
    }
    return err ? bst_session_fault(s, err) : see_to(s, u, &res);
}

static bool same_split(const struct bst_session_sent *a, const struct bst_session_sent *b)
{
    return a->req.batch == b->req.batch && a->req.micro_batches == b->req.micro_batches;
}

enum bst_err bst_session_update(struct bst_session *s)
{
    struct bst_session_sent u;
    /* What a change came to is read back from its first update, before another one is sent. */
    bool ahead = bst_trainer_late(s->trainer) > 0 && !s->pending && s->at.momentum_factor == 1;
    s->find_cut = false;
    BST_TRY(bst_request_make(&s->live, bst_session_sent_to(s), s->live.schedule.total,
                             s->at.update + (uint64_t)s->n_sent + 1, &u.split, &u.req));
    if (s->n_sent && !(ahead && same_split(&u, &s->sent[0])))
        return bst_session_settle(s);
    u.req.nesterov = s->preset.nesterov;
    u.req.momentum_factor = s->at.momentum_factor;
    u.req.noise = bst_session_noise_wanted(s);
    u.req.layers = ahead && bst_session_layers_wanted(s, u.req.update);
    return ahead ? send(s, &u) : update_at_once(s, &u);
}

static void write_eval(struct bst_session *s, const struct bst_eval_result *res)
{
    struct bst_sb line;
    struct bst_json j;
    bst_sb_init(&line, 4096);
    bst_json_init(&j, &line);
    metrics_head(s, "eval", &j);
    bst_json_num(&j, "loss", res->loss);
    bst_json_num(&j, "accuracy_top1", res->accuracy);
    if (!isnan(res->exact))
        bst_json_num(&j, "exact_match", res->exact);
    say_why(&j, res->loss, res->accuracy);
    if (bst_trainer_data(s->trainer)->streams) {
        bst_json_num(&j, "perplexity", res->perplexity);
        bst_json_int(&j, "eval_targets", res->targets);
    }
    bst_json_int(&j, "eval_samples", res->samples);
    bst_json_num(&j, "seconds", res->seconds);
    bst_json_num(&j, "elapsed", bst_session_elapsed(s));
    bst_json_close(&j, '}');
    bst_metrics_add(s->metrics, line.data);
    bst_sb_fini(&line);
}

enum bst_err bst_session_eval(struct bst_session *s)
{
    struct bst_eval_result res;
    bst_session_phase(s, BST_PHASE_EVALUATING);
    bst_server_busy(s->server, true);
    enum bst_err err = bst_trainer_eval(s->trainer, &s->interrupt, &res);
    bst_server_busy(s->server, false);
    if (err)
        return err;
    s->at.eval_loss = bst_metric_of(res.loss);
    s->at.eval_accuracy = bst_metric_of(res.accuracy);
    s->at.eval_perplexity = bst_metric_of(res.perplexity > 0 ? res.perplexity : NAN);
    s->at.eval_exact = bst_metric_of(res.exact);
    if (!s->at.best_accuracy.valid || res.accuracy > s->at.best_accuracy.value)
        s->at.best_accuracy = s->at.eval_accuracy;
    bst_advisor_eval(&s->advisor, res.accuracy);
    write_eval(s, &res);
    watch_metrics(s);
    say_bad_samples(s);
    if (!isfinite(res.loss))
        bst_session_note(s, BST_DIAG_NONFINITE_LOSS, "the loss of the evaluation is not finite");
    bst_session_publish(s, true);
    if (s->cfg.news)
        s->cfg.news(s->cfg.arg, BST_NEWS_EVAL, &s->status, "");
    return BST_OK;
}
