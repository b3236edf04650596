/* What a running trainer says of itself: one plain value, filled by the session between updates,
 * sent as one JSON object, read back by consoles, `status` and `ctl`. A measured field carries a
 * validity: the screen shows n/a, never a made-up 0. */
#ifndef BST_RUN_STATUS_H
#define BST_RUN_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/sb.h"

#define BST_MAX_DEVICES 16
#define BST_MAX_LAYERS 512
#define BST_MAX_CURVE 128
#define BST_MAX_ADVICE 8

struct bst_metric {
    double value;
    bool valid;
};

/* Known when it is finite. */
struct bst_metric bst_metric_of(double value);

enum bst_phase {
    BST_PHASE_STARTING,
    BST_PHASE_TRAINING,
    BST_PHASE_EVALUATING,
    BST_PHASE_SAVING,
    BST_PHASE_PAUSED,
    BST_PHASE_DONE,
    BST_PHASE_FAILED,
    BST_PHASE_STOPPING,
    BST_PHASE_STOPPED,
    BST_PHASE_PREEMPTED,
    BST_PHASE_SEARCHING, /* fit, lrfind or a trial, between two updates */
    BST_PHASE_KILLED,    /* no trainer's own word: seen from its folder */
};
const char *bst_phase_name(enum bst_phase p);
/* No update comes any more: done, failed, stopped, preempted or killed. */
bool bst_phase_is_over(enum bst_phase p);
/* It ended, and nobody asked for that: failed or killed. */
bool bst_phase_is_failure(enum bst_phase p);

struct bst_status_device {
    char name[96];
    struct bst_metric memory_planned, memory_used, memory_peak, memory_limit; /* bytes */
    /* Of a GPU, as its driver has it, whoever uses it: bytes. */
    struct bst_metric driver_memory_used, driver_memory_total;
    struct bst_metric memory_hold; /* of what is planned, kept free for `undo --rewind` */
    struct bst_metric utilisation; /* 0…1: CPU time of the rank's team over wall time, or
                                      of a GPU the part of it with a kernel running */
    struct bst_metric temperature; /* °C */
    /* Of a GPU: W, MHz, MHz; memory errors not corrected since the driver was loaded. */
    struct bst_metric power, sm_clock, memory_clock, ecc_uncorrected;
    char throttle[96]; /* why its clocks are lower than they might be; "": they are not */
    struct bst_metric samples_per_sec;
    struct bst_metric recompute_work; /* estimated, of all the rest of an update; only where some */
    int threads;
};

struct bst_status_layer {
    char name[96];
    struct bst_metric grad_norm, weight_norm;
};

struct bst_status_advice { /* newest first */
    char code[12], why[160], change[48], effect[80];
    uint64_t update;
    struct bst_metric statistic, threshold;
};

struct bst_status {
    char run[80], preset[80], net[40], data[40], host[80];
    char dir[512];
    int pid;
    enum bst_phase phase;
    char note[256]; /* last error or notice, cleaned; "" if none */
    char note_code[12];
    char search[256]; /* how far fit or lrfind is, or what the last one found; "" if none */
    struct bst_metric found_micro, found_rate; /* by the last one; the rate only when it is clear */
    uint64_t update, samples, samples_total;   /* samples_total: end of the run */
    int64_t samples_per_epoch, eval_samples;   /* of the training part and the evaluation part */
    double epoch, epochs_total;
    int64_t global_batch;
    int micro_batch, accumulation, n_devices;
    struct bst_metric learning_rate, loss, train_accuracy, eval_loss, eval_accuracy, best_accuracy;
    struct bst_metric eval_exact; /* 0…1: samples with every target right, where they are answers */
    struct bst_metric grad_norm, grad_low, grad_high; /* the norm and its healthy band */
    uint64_t nonfinite, skipped;
    struct bst_metric samples_per_sec, eta_seconds, elapsed_seconds;
    struct bst_metric tokens_per_sec;  /* of sequences, padding not counted */
    struct bst_metric eval_perplexity; /* of sequences: e to the loss of their tokens */
    uint64_t batch_tokens;             /* the batch as it is counted; 0: in samples */
    struct bst_metric data_wait;       /* share of the last update's time, 0…1 */
    struct bst_metric update_age; /* seconds that the update, or the evaluation, which is on has
                                     taken so far; filled as the status is sent */
    struct bst_metric last_checkpoint_samples;
    uint64_t warmup_samples;
    /* The noise scale in samples with its interval, not valid unless it is known; noise_state says
     * why not. Efficiency: progress a sample makes at this batch, of what it would at a tiny one.
     * Cost: share of an update's time. */
    struct bst_metric noise_scale, noise_low, noise_high, noise_efficiency, noise_cost;
    char noise_state[40];
    uint64_t noise_updates; /* measured so far */
    double momentum, weight_decay, max_grad_norm, label_smoothing;
    char optimizer[16], lr_scheduler[16], lr_scaling[20], precision[8], backend[16];
    char lease[80];          /* who holds it; "" nobody */
    bool you_hold_lease;     /* filled per client, as is */
    char lease_taken_by[80]; /* who took it from this client; "" nobody did, or it is back */
    bool you_search;         /* this client asked for the search that is on */
    int n_clients;
    uint64_t journal_seq; /* entries so far */
    /* The schedule in force: pairs (samples, rate) over the whole run, close together where it
     * bends. */
    double curve_samples[BST_MAX_CURVE], curve_rate[BST_MAX_CURVE];
    int n_curve;
    struct bst_status_device devices[BST_MAX_DEVICES];
    int n_advice;
    struct bst_status_advice advice[BST_MAX_ADVICE];
    int n_layers;
    struct bst_status_layer layers[BST_MAX_LAYERS];
};

void bst_status_print(const struct bst_status *s, struct bst_sb *out, bool with_layers);
/* false with the error text of bst_fail when it is not a status object. */
BST_MUST_USE enum bst_err bst_status_parse(const char *json, struct bst_status *out);
/* dir/status.json: of a run that nobody trains now, as it was last written; standing.h makes of it
 * what the run is. */
BST_MUST_USE enum bst_err bst_status_load(const char *dir, struct bst_status *out);

#endif
