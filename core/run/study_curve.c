#include "core/run/study_curve.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/alloc.h"
#include "core/base/order.h"
#include "core/run/history.h"
#include "core/run/status.h"

/* The loss of one update at a small batch is mostly noise: a point is the mean over a share of an
 * epoch, so the same number of samples at every batch. */
enum { POINTS_AN_EPOCH = 40 };

struct bst_study_reader {
    struct bst_history *h;
    uint64_t generation; /* of it, when last walked */
    struct bst_history_place walked;
    struct bst_history_update last; /* walked */
    double seconds, epoch_seconds;  /* of training alone; since the last whole epoch */
    double *epochs;                 /* seconds of whole ones */
    int n_epochs, room_epochs, room_points, room_evals;
    double weight; /* samples in the last point */
    bool whole;
};

static void start_over(struct bst_study_run *run)
{
    struct bst_study_reader *r = run->reader;
    r->n_epochs = run->n_points = run->n_evals = 0;
    r->walked = (struct bst_history_place){0};
    r->last = (struct bst_history_update){0};
    r->seconds = r->epoch_seconds = r->weight = 0;
    r->whole = true;
}

static void add_point(struct bst_study_run *run, const struct bst_history_update *u, double samples)
{
    struct bst_study_reader *r = run->reader;
    double share = run->samples_per_epoch / POINTS_AN_EPOCH;
    /* By the middle of the update: one that fills a share exactly belongs to it. */
    bool same = run->n_points && floor((u->samples - samples / 2) / share) ==
                                     floor((r->last.samples - samples / 2) / share);
    if (!same) {
        run->points = bst_xgrow(run->points, run->n_points, &r->room_points, sizeof *run->points);
        run->points[run->n_points++] = (struct bst_study_point){0};
        r->weight = 0;
    }
    struct bst_study_point *p = &run->points[run->n_points - 1];
    p->loss = (p->loss * r->weight + u->loss * samples) / (r->weight + samples);
    r->weight += samples;
    p->samples = u->samples;
    p->seconds = r->seconds;
}

static void add_eval(struct bst_study_run *run, const struct bst_history_eval *e)
{
    struct bst_study_reader *r = run->reader;
    run->evals = bst_xgrow(run->evals, run->n_evals, &r->room_evals, sizeof *run->evals);
    run->evals[run->n_evals++] = (struct bst_sweep_eval){e->samples, r->seconds, e->accuracy};
    r->walked.n_evals++;
}

/* Evaluations up to here, with the training time that it took to come to them. */
static void take_evals(struct bst_study_run *run)
{
    struct bst_study_reader *r = run->reader;
    int *n = &r->walked.n_evals;
    while (*n < r->h->n_evals && r->h->evals[*n].samples <= r->last.samples)
        add_eval(run, &r->h->evals[*n]);
}

static void take_update(struct bst_study_run *run, const struct bst_history_update *u)
{
    struct bst_study_reader *r = run->reader;
    double samples = u->samples - r->last.samples;
    double seconds = u->samples_per_sec > 0 ? samples / u->samples_per_sec : NAN;
    if (!r->walked.n_updates)
        run->samples_per_epoch = round(u->samples / u->epoch);
    r->seconds += seconds;
    r->epoch_seconds += seconds;
    r->whole &= u->accumulation == 1;
    add_point(run, u, samples);
    if (u->samples >= (r->n_epochs + 1) * run->samples_per_epoch) {
        r->epochs = bst_xgrow(r->epochs, r->n_epochs, &r->room_epochs, sizeof *r->epochs);
        r->epochs[r->n_epochs++] = r->epoch_seconds;
        r->epoch_seconds = 0;
    }
    r->last = *u;
    r->walked.n_updates++;
    r->walked.update = u->update;
    r->walked.seconds = u->seconds;
}

static bool open_reader(struct bst_study_run *run)
{
    struct bst_history *h;
    if (run->reader)
        return true;
    if (bst_history_open(run->dir, &h))
        return false;
    run->reader = bst_xalloc(sizeof *run->reader);
    run->reader->h = h;
    start_over(run);
    return true;
}

bool bst_study_follow(struct bst_study_run *run)
{
    if (!open_reader(run))
        return false;
    struct bst_study_reader *r = run->reader;
    while (bst_history_poll(r->h)) {
    }
    if (r->h->generation == r->generation)
        return false;
    r->generation = r->h->generation;
    if (bst_history_went_back(r->h, &r->walked))
        start_over(run);
    while (r->walked.n_updates < r->h->n_updates) {
        take_update(run, &r->h->updates[r->walked.n_updates]);
        take_evals(run);
    }
    take_evals(run);
    if (r->walked.n_updates) {
        run->epoch = r->last.epoch;
        run->left = r->last.seconds * (run->epochs - run->epoch) / run->epoch;
    }
    return true;
}

static double value(struct bst_metric m)
{
    return m.valid ? m.value : NAN;
}

static void fill_result(struct bst_study_run *run, const struct bst_status *s)
{
    struct bst_study_reader *r = run->reader;
    const struct bst_history_eval *last = &r->h->evals[r->h->n_evals - 1];
    double epoch_seconds = bst_median(r->epochs, (size_t)r->n_epochs);
    run->result = (struct bst_sweep_run){
        .batch = run->batch,
        .seed = run->seed,
        .epoch_seconds = epoch_seconds,
        .samples_per_sec = (double)s->samples_per_epoch / epoch_seconds,
        .memory_planned = s->n_devices ? value(s->devices[0].memory_planned) : NAN,
        .memory_peak = s->n_devices ? value(s->devices[0].memory_peak) : NAN,
        .accuracy = last->accuracy,
        .best_accuracy = value(s->best_accuracy),
        .loss = last->loss,
        .eval_samples = (double)s->eval_samples,
        .whole = r->whole,
        .evals = run->evals,
        .n_evals = run->n_evals,
    };
}

enum bst_err bst_study_conclude(struct bst_study_run *run)
{
    if (!open_reader(run))
        return bst_fail(BST_E_NOTFOUND, "%s: its files are gone", run->dir);
    struct bst_status *s = bst_xalloc(sizeof *s);
    bst_study_follow(run);
    enum bst_err err = bst_status_load(run->dir, s);
    if (!err && !run->reader->h->n_evals)
        err = bst_fail(BST_E_STATE, "%s: was never evaluated", run->dir);
    if (!err) {
        fill_result(run, s);
        run->epoch = s->epoch;
        run->epochs = s->epochs_total;
    }
    bst_free(s);
    bst_study_unfollow(run);
    return err;
}

void bst_study_unfollow(struct bst_study_run *run)
{
    if (!run->reader)
        return;
    bst_history_close(run->reader->h);
    bst_free(run->reader->epochs);
    bst_free(run->reader);
    run->reader = NULL;
}
