/* What the files of a session share. The session's thread. */
#ifndef BST_RUN_SESSION_INNER_H
#define BST_RUN_SESSION_INNER_H

#include <jansson.h>

#include "core/comm/cluster.h"
#include "core/run/journal.h"
#include "core/run/metrics.h"
#include "core/run/monitor.h"
#include "core/run/recording.h"
#include "core/run/reply.h"
#include "core/run/run_dir.h"
#include "core/run/server.h"
#include "core/run/session.h"
#include "core/run/signals.h"
#include "core/run/start.h"
#include "core/tune/advisor.h"
#include "core/tune/noise.h"
#include "core/tune/watch.h"

enum { BST_UNDO_MAX = 64, BST_WAITERS_MAX = 8 };

#define BST_SOURCE_RESUME "resume" /* in the journal: of a change that came with --resume */

/* Where the run stands: what a checkpoint holds besides tensors and settings, and what a rewind
 * puts back. Plain values. */
struct bst_progress {
    uint64_t update, samples;            /* done */
    uint64_t next_eval, next_checkpoint; /* marks, in samples */
    uint64_t last_eval;
    uint64_t next_planned; /* of the preset's changes, in order of time */
    uint64_t nonfinite, skipped;
    int nonfinite_row;
    struct bst_metric eval_loss, eval_accuracy, eval_exact, best_accuracy, eval_perplexity;
    struct bst_noise noise; /* what the noise scale is worked out from */
    double elapsed;         /* seconds of all processes of the run before this one */
    /* Still to be multiplied into the velocities, by the next update that commits; 1: nothing. */
    double momentum_factor;
};

/* A change on its way: proposed, put in force, not yet seen in an update. */
struct bst_proposal {
    struct bst_inbound in;
    struct bst_command cmd;
    struct bst_plan plan;
    struct bst_rank_memory memory;
    struct bst_preset preset; /* of the command `preset` */
    struct bst_preset_difference kept[BST_N_PARAMS];
    int n_kept;
    enum bst_diag refused;
    bool journalled; /* a rewind, which is written down before it is done */
};

struct bst_undo {
    struct bst_live undo[BST_UNDO_MAX], redo[BST_UNDO_MAX];
    int n_undo, n_redo;
};

struct bst_planned { /* a change that the preset asks for */
    uint64_t at;     /* samples */
    int change;      /* index in preset.changes */
};

struct bst_session_sent { /* an update that is on its way */
    struct bst_update_req req;
    struct bst_split split;
};

struct bst_session {
    struct bst_session_cfg cfg;
    struct bst_preset preset; /* as started */
    struct bst_start start;
    struct bst_train_cfg train_cfg;
    struct bst_trainer *trainer;
    struct bst_monitor *monitor; /* NULL: devices of which no driver tells anything */
    struct bst_run_info info;

    struct bst_server *server;
    struct bst_signals *signals;
    struct bst_journal *journal;
    struct bst_metrics *metrics;
    struct bst_recorder *recorder; /* NULL: it could not be opened */
    int wake_fd;
    atomic_int interrupt;

    struct bst_plan_env env; /* samples and fit are filled in when it is used */
    struct bst_live live, live_start;
    struct bst_undo undo;
    struct bst_progress at; /* behind the last update whose result is there */
    struct bst_session_sent sent[BST_UPDATES_LATE + 1]; /* behind it, in order */
    int n_sent;
    uint64_t eval_every, checkpoint_every; /* samples; 0: never */
    double opened;                         /* monotonic */

    struct bst_proposal *pending; /* NULL: none */
    bool have_hold;               /* of the state just before the last change */
    bool held_undone;             /* whose settings were undone since, but not its weights */
    struct bst_progress held_at;
    struct bst_live held_live;
    struct bst_undo held_undo;
    uint64_t held_metrics, held_checkpoint; /* the newest then; 0: there was none */
    double loss_last, loss_mean, held_loss; /* NaN: not known; the mean, of late and as held */

    bool paused, stopping, first_given;
    bool lost; /* a rewind was written down and could not be done */
    struct bst_inbound eval_for[BST_WAITERS_MAX], checkpoint_for[BST_WAITERS_MAX], stop_for;
    int n_eval_for, n_checkpoint_for;

    bool find_cut;              /* the last search was, and nobody has been told by `cancel` yet */
    char found[400];            /* by the last search that found something; "": none has */
    bool find_waiting, finding; /* a search that was asked for; that is on */
    struct bst_inbound find_for;
    struct bst_command find_cmd;

    struct bst_planned planned[BST_PRESET_CHANGES]; /* preset.changes.n of them, by time */

    int killed_pid; /* of the process before, where it did not end by itself; 0: none */
    int *replay;    /* entries of the journal still to be put in force, by index */
    int n_replay, next_replay;

    /* What the last checkpoint had, so that nothing is saved twice. */
    uint64_t saved_update, saved_seq, saved_next_eval, checkpoint_seq, resumed_seq;
    bool saved;
    double save_again, save_pause; /* after a failure */
    int n_save_failed;             /* in a row */
    int n_dropped;                 /* updates in a row that a device failed in */
    bool metrics_failing;
    double metrics_failing_since, metrics_said;
    int64_t n_bad_said; /* unreadable samples told of */

    struct {
        int fd;    /* of the folder, as opened; -1: none */
        bool lost; /* not there, and could not be made again */
        bool save; /* no checkpoint is in it yet, though there was one */
        double next_look, said;
        char why[400]; /* it could not, as was said */
    } folder;

    struct bst_status status;
    struct bst_watch watch;
    double published, layers_at, cpu_at, cpu_used;
    double rate_mean, tokens_mean;     /* a second, of late; 0: none yet */
    uint64_t noise_batch, noise_split; /* that the status speaks of */
    struct bst_advisor advisor;
    int n_scored;              /* pieces of advice whose outcome was told */
    char autopilot[48];        /* the command it is about to give; "": none */
    uint64_t autopilot_at;     /* the update that it was advised after */
    const char *autopilot_why; /* its last one was not made; NULL: it was */
};

/* session_status.c */
double bst_session_elapsed(const struct bst_session *s);
void bst_session_phase(struct bst_session *s, enum bst_phase phase);
/* Samples and tokens a second into the status, by one rule. */
void bst_session_rates(struct bst_session *s);
/* Fills and publishes the snapshot; at most every 50 ms unless `now`. */
void bst_session_publish(struct bst_session *s, bool now);
/* A message of the trainer's own: log, metrics, clients, status. */
void bst_session_note(struct bst_session *s, enum bst_diag code, const char *fmt, ...)
    BST_PRINTF(3, 4);
/* What stands behind "BST-605: ", and the code before that; "" and the text where there is none. */
const char *bst_session_split_code(const char *text, char code[8]);
/* The code of an error: `known`, or, where there is none, the one that its text begins with. *text
 * goes on behind that, since the code is said beside it. */
enum bst_diag bst_session_code_of(enum bst_diag known, const char **text);
/* The same of what the journal records: not once more in the metrics. */
void bst_session_note_journalled(struct bst_session *s, enum bst_diag code, const char *text);
/* Of what the run ends with: not in the log, where whoever ends the process says it. */
void bst_session_note_last(struct bst_session *s, enum bst_diag code, const char *text);
/* To whoever trains in the foreground: what became of a change, whose it was, and at which update,
 * as the journal has it. */
void bst_session_tell_change(struct bst_session *s, const struct bst_inbound *in,
                             const char *outcome, enum bst_diag code, uint64_t update,
                             const char *text);

/* session_folder.c: the run's own files, also after they were removed. */
BST_MUST_USE enum bst_err bst_session_write_preset(const struct bst_session *s);
/* The same over the one that is there. */
BST_MUST_USE enum bst_err bst_session_replace_preset(const struct bst_session *s);
BST_MUST_USE enum bst_err bst_session_write_info(struct bst_session *s, const char *state);
BST_MUST_USE enum bst_err bst_session_folder_open(struct bst_session *s);
void bst_session_folder_close(struct bst_session *s);
/* Whether all is where it was, at most once a second unless `at_once`; what is not is put back and
 * said. An error: it could not be, which is said too and is no reason to stop training. */
enum bst_err bst_session_folder_look(struct bst_session *s, bool at_once);

/* session_update.c: one update, its metrics, and the read back of a change. Where devices have
 * queues it may still be on its way when the function returns, and what is seen to is the result of
 * an earlier one; the first update under a change is waited for. */
BST_MUST_USE enum bst_err bst_session_update(struct bst_session *s);
/* Until none is on its way: before anything looks at the state, or at where the run stands. */
BST_MUST_USE enum bst_err bst_session_settle(struct bst_session *s);
uint64_t bst_session_sent_to(const struct bst_session *s); /* samples, behind the last one sent */
BST_MUST_USE enum bst_err bst_session_eval(struct bst_session *s);

/* session_fault.c: an update failed. BST_OK: nothing has moved, and it is taken again. */
BST_MUST_USE enum bst_err bst_session_fault(struct bst_session *s, enum bst_err err);
/* The run ends with `err`: what can be saved is, and `why` says so, and gets its code. */
void bst_session_fault_end(struct bst_session *s, enum bst_err err, char *why, size_t room);

/* session_noise.c: the noise scale, from what the updates bring. */
bool bst_session_noise_wanted(const struct bst_session *s);
/* session_status.c: the layers' norms, which the list shows twice a second, and which the advisor
 * looks at after every so many updates: they cost a pass over the weights. Wanted: the update about
 * to be sent is to bring them. */
enum { BST_LAYERS_EVERY = 50 };
bool bst_session_layers_wanted(struct bst_session *s, uint64_t update);
void bst_session_show_layers(struct bst_session *s);
void bst_session_noise_add(struct bst_session *s, const struct bst_update_result *res);
/* Into the status, after a change of the batch or its split. */
void bst_session_noise_follow(struct bst_session *s);
void bst_session_noise_print(const struct bst_noise *n, struct bst_json *j);
void bst_session_noise_read(const json_t *state, struct bst_noise *n);

/* session_advice.c: what the advisor makes of the run, and what becomes of it. */
void bst_session_advise(struct bst_session *s, const struct bst_update_result *res);
/* Adds to the notes of a change what advice it would bring by itself; and, of one that is in force,
 * keeps the advisor from saying it again. */
void bst_session_foresee(struct bst_session *s, struct bst_plan *plan);
void bst_session_foretold(struct bst_session *s, const struct bst_plan *plan);
/* Whether advice under this code was shown since the last update. */
bool bst_session_advised(const struct bst_session *s, enum bst_diag code);
/* Puts advice in force, between updates, where the preset says so. */
void bst_session_autopilot(struct bst_session *s);
/* At the end: what the advice was worth. */
void bst_session_advice_end(struct bst_session *s);

/* session_change.c: proposals. */
BST_MUST_USE enum bst_err bst_session_propose(struct bst_session *s, struct bst_proposal *p);
/* Puts a proposal in force; it is pending then. */
BST_MUST_USE enum bst_err bst_session_put(struct bst_session *s, struct bst_proposal *p);
/* The update that used it: journalled and answered, or taken back. */
void bst_session_confirm(struct bst_session *s, const struct bst_update_req *req,
                         const struct bst_split *split, const struct bst_update_result *res);
/* Journalled and answered without an update, on a paused run. */
void bst_session_confirm_paused(struct bst_session *s);
/* What a proposal comes to, in words, before it is done. */
void bst_session_describe(const struct bst_session *s, const struct bst_proposal *p,
                          struct bst_sb *out);
/* Everything as before the pending change, which is answered with `outcome` and why; but what was
 * journalled first stays in force. */
void bst_session_take_back(struct bst_session *s, const char *outcome, enum bst_diag code,
                           const char *why);
/* The pending change into the journal. */
BST_MUST_USE enum bst_err bst_session_write_entry(struct bst_session *s, uint64_t update,
                                                  uint64_t samples);
/* Settings that fit: as asked, or with the largest micro-batch that does. */
BST_MUST_USE enum bst_err bst_session_fit(struct bst_session *s, struct bst_live *live);

/* session_undo.c: the way back, in settings and in weights. */
void bst_session_count_change(struct bst_session *s, enum bst_command_kind kind,
                              const struct bst_live *before);
BST_MUST_USE enum bst_err bst_session_plan_back(struct bst_session *s, struct bst_proposal *p,
                                                const struct bst_plan_env *env);
/* Keeps the state that is there for a rewind to it, from before a command of this kind. */
BST_MUST_USE enum bst_err bst_session_hold(struct bst_session *s, enum bst_command_kind kind);
/* An undo of the very change that the held state is from before. */
bool bst_session_keeps_hold(const struct bst_session *s, const struct bst_proposal *p);
BST_MUST_USE enum bst_err bst_session_rewind(struct bst_session *s);
/* The run's position, not its weights. */
void bst_session_back_to_hold(struct bst_session *s);
/* Where the weights have gone bad since the change that is undone, says how to have them back. */
void bst_session_hint_rewind(const struct bst_session *s, const struct bst_proposal *p,
                             struct bst_sb *out);

/* session_planned.c: the preset's own changes, by time. */
BST_MUST_USE enum bst_err bst_session_plan_changes(struct bst_session *s);
/* Makes those that are due; replaying: those of a process before, which are only counted. */
void bst_session_planned(struct bst_session *s, bool replaying);
bool bst_session_planned_due(const struct bst_session *s, uint64_t samples);
/* At the end of the run: says which were never due. */
void bst_session_planned_end(struct bst_session *s);
/* A length that a resume asked for, in force since sample `at`: from now on one of the preset's own
 * changes, also in preset.yaml, so that this makes the longer run. Counted as made by whoever made
 * it: bst_session_planned() while it replays, or the caller. */
void bst_session_plan_length(struct bst_session *s, const char *command, uint64_t at);

/* session_find.c: searches for a batch or a rate. */
void bst_session_find_ask(struct bst_session *s, const struct bst_inbound *in,
                          const struct bst_command *cmd);
/* Does the search that waits, and answers it. Any error is one of the run: the trainer could not be
 * put back as it was. */
BST_MUST_USE enum bst_err bst_session_find(struct bst_session *s);
/* The search that waits, if one does, is answered with why not. */
void bst_session_find_drop(struct bst_session *s, const char *why);

/* session_command.c: what the socket brings. */
void bst_session_take(struct bst_session *s, const struct bst_inbound *in);
BST_MUST_USE enum bst_err bst_session_commands(struct bst_session *s, bool urgent_only);
/* The one that came with the start, once everything before it is in force. */
void bst_session_first_command(struct bst_session *s);
void bst_session_answer(struct bst_session *s, const struct bst_inbound *in,
                        const struct bst_outcome *o);
void bst_session_answer_text(struct bst_session *s, const struct bst_inbound *in,
                             const char *outcome, enum bst_diag code, const char *text);
/* Writes a command that is no change, or a refusal, into the journal: of the update that was made
 * last, since no update begins with it. */
void bst_session_journal(struct bst_session *s, const struct bst_inbound *in, const char *outcome,
                         enum bst_diag code, const char *text);

/* session_save.c: checkpoints, and back from them. */
BST_MUST_USE enum bst_err bst_session_save(struct bst_session *s);
/* Every checkpoint, when none is from before the point that a rewind goes back to: a resume then
 * starts over and comes to the same. */
BST_MUST_USE enum bst_err bst_session_set_aside(struct bst_session *s);
BST_MUST_USE enum bst_err bst_session_resume(struct bst_session *s, struct bst_sb *notes);
/* Puts the journal's entries in force that belong to this point of the run. */
BST_MUST_USE enum bst_err bst_session_replay(struct bst_session *s);
BST_MUST_USE enum bst_err bst_session_write_weights(struct bst_session *s);
void bst_session_write_status(struct bst_session *s);

#endif
