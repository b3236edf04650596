#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/alloc.h"
#include "core/base/clock.h"
#include "core/base/io.h"
#include "core/run/field.h"
#include "core/run/journal_changes.h"
#include "core/run/live.h"
#include "core/run/session_inner.h"
#include "core/train/checkpoint.h"

enum { KEEP = 3, STATE_VERSION = 1 };
#define RETRY_FIRST 5.0
#define RETRY_MOST 60.0

#define P(kind, name) BST_FIELD(struct bst_progress, kind, name)
static const struct bst_field progress_fields[] = {
    P(U64, update),           P(U64, samples),
    P(U64, next_eval),        P(U64, next_checkpoint),
    P(U64, last_eval),        P(U64, next_planned),
    P(U64, nonfinite),        P(U64, skipped),
    P(METRIC, eval_loss),     P(METRIC, eval_accuracy),
    P(METRIC, best_accuracy), P(F64, elapsed),
    P(F64, momentum_factor),  P(METRIC, eval_perplexity),
    P(METRIC, eval_exact),
};
#undef P
enum { N_PROGRESS = sizeof progress_fields / sizeof *progress_fields };

/* What has to be the same for a resume to go on bit for bit. */
struct conditions {
    char backend[16], isa[32], library[64], version[32];
    int threads, ranks;
};

#define C(kind, name) BST_FIELD(struct conditions, kind, name)
static const struct bst_field condition_fields[] = {
    C(STR, backend), C(STR, isa), C(STR, library), C(STR, version), C(INT, threads), C(INT, ranks),
};
#undef C
enum { N_CONDITIONS = sizeof condition_fields / sizeof *condition_fields };

struct saved { /* state.json */
    struct bst_progress at;
    struct bst_live live;
    struct conditions conditions;
    uint64_t journal_seq, metrics_bytes;
    char *choices; /* heap, or NULL */
};

static struct conditions conditions_now(const struct bst_session *s)
{
    struct bst_device_info info;
    struct conditions c = {.ranks = s->train_cfg.ranks};
    bst_trainer_device(s->trainer, 0, &info);
    c.threads = info.threads;
    bst_copy_text(c.backend, sizeof c.backend, s->train_cfg.backend->name);
    bst_copy_text(c.isa, sizeof c.isa, info.isa);
    bst_copy_text(c.library, sizeof c.library, info.library);
    bst_copy_text(c.version, sizeof c.version, BST_VERSION);
    return c;
}

/* Of the last entry that is in force: those still to be put back do not belong to a checkpoint yet.
 */
static uint64_t seq_in_force(const struct bst_session *s)
{
    if (s->next_replay < s->n_replay)
        return bst_journal_at(s->journal, s->replay[s->next_replay])->seq - 1;
    return bst_journal_seq(s->journal);
}

static void print_choices(const struct bst_session *s, struct bst_json *j)
{
    struct bst_sb text;
    bst_sb_init(&text, BST_CHECKPOINT_STATE_CAP / 4);
    bst_trainer_choices(s->trainer, &text);
    if (text.len && !text.full)
        bst_json_str(j, "choices", text.data);
    bst_sb_fini(&text);
}

static void print_state(const struct bst_session *s, uint64_t metrics_bytes, struct bst_sb *out)
{
    struct bst_json j;
    struct bst_progress at = s->at;
    struct conditions c = conditions_now(s);
    at.elapsed = bst_session_elapsed(s);
    bst_json_init(&j, out);
    bst_json_open(&j, NULL, '{');
    bst_json_int(&j, "version", STATE_VERSION);
    bst_json_open(&j, "progress", '{');
    bst_fields_print(progress_fields, N_PROGRESS, &at, &j);
    bst_json_close(&j, '}');
    bst_json_open(&j, "conditions", '{');
    bst_fields_print(condition_fields, N_CONDITIONS, &c, &j);
    bst_json_close(&j, '}');
    bst_json_uint(&j, "journal_seq", seq_in_force(s));
    bst_json_uint(&j, "metrics_bytes", metrics_bytes);
    bst_live_print(&s->live, "live", &j);
    bst_session_noise_print(&s->at.noise, &j);
    print_choices(s, &j);
    bst_json_close(&j, '}');
    bst_sb_addc(out, '\n');
}

static enum bst_err read_state(const char *text, struct saved *out)
{
    *out = (struct saved){0};
    json_t *o = json_loads(text, 0, NULL);
    enum bst_err err = BST_OK;
    if (bst_json_count(o, "version", 0) != STATE_VERSION)
        err = bst_fail(BST_E_PARSE, "state.json of another version");
    if (!err)
        err = bst_live_read(json_object_get(o, "live"), &out->live);
    bst_fields_read(progress_fields, N_PROGRESS, json_object_get(o, "progress"), &out->at);
    bst_fields_read(condition_fields, N_CONDITIONS, json_object_get(o, "conditions"),
                    &out->conditions);
    /* Of a version before it was saved. */
    if (!(out->at.momentum_factor > 0))
        out->at.momentum_factor = 1;
    bst_noise_init(&out->at.noise, BST_NOISE_SPAN);
    bst_session_noise_read(json_object_get(o, "noise"), &out->at.noise);
    const char *choices = bst_json_text(o, "choices");
    out->choices = *choices ? bst_xstrdup(choices) : NULL;
    out->journal_seq = bst_json_count(o, "journal_seq", 0);
    out->metrics_bytes = bst_json_count(o, "metrics_bytes", 0);
    json_decref(o);
    return err;
}

static enum bst_err save_now(struct bst_session *s, struct bst_checkpoint *made)
{
    char dir[768];
    uint64_t bytes;
    struct bst_sb state;
    BST_TRY(bst_metrics_sync(s->metrics, &bytes));
    bst_run_path(s->cfg.dir, "checkpoints", dir);
    bst_sb_init(&state, BST_CHECKPOINT_STATE_CAP);
    print_state(s, bytes, &state);
    struct bst_checkpoint_req req = {
        .dir = dir,
        .update = s->at.update,
        .samples = s->at.samples,
        .state = state.data,
        .keep = KEEP,
        /* What a rewind would need after a kill, or else what this process started from. */
        .pinned = s->have_hold && s->held_checkpoint ? s->held_checkpoint : s->resumed_seq,
    };
    enum bst_err err = bst_checkpoint_save(s->trainer, &req, made);
    bst_sb_fini(&state);
    return err;
}

static bool is_saved(const struct bst_session *s)
{
    return s->saved && s->saved_update == s->at.update && s->saved_seq == seq_in_force(s) &&
           s->saved_next_eval == s->at.next_eval;
}

enum bst_err bst_session_save(struct bst_session *s)
{
    struct bst_checkpoint made;
    /* First, since making the folder for checkpoints would make the run's anew, without the rest.
     */
    enum bst_err err = bst_session_folder_look(s, true);
    if (!err && is_saved(s))
        return BST_OK;
    bst_session_phase(s, BST_PHASE_SAVING);
    if (!err)
        err = save_now(s, &made);
    if (err) {
        const struct bst_failure why = bst_err_keep(err);
        s->save_pause = s->save_pause > 0 ? 2 * s->save_pause : RETRY_FIRST;
        if (s->save_pause > RETRY_MOST)
            s->save_pause = RETRY_MOST;
        s->save_again = bst_clock_now() + s->save_pause;
        s->n_save_failed++;
        char last[48] = "none is saved yet";
        if (s->saved)
            snprintf(last, sizeof last, "the last is of update %" PRIu64, s->saved_update);
        bst_session_note(s, BST_DIAG_CHECKPOINT_FAILING,
                         "checkpoint at update %" PRIu64 ": %s (attempt %d, %s)", s->at.update,
                         why.text, s->n_save_failed, last);
        return bst_err_restore(&why);
    }
    s->save_again = s->save_pause = 0;
    s->folder.save = false;
    if (s->n_save_failed)
        bst_session_note(s, BST_DIAG_NONE,
                         "checkpoints are saved again, at update %" PRIu64 " after %d failed "
                         "attempt%s",
                         s->at.update, s->n_save_failed, s->n_save_failed == 1 ? "" : "s");
    s->n_save_failed = 0;
    s->saved = true;
    s->saved_update = s->at.update;
    s->saved_seq = seq_in_force(s);
    s->saved_next_eval = s->at.next_eval;
    s->checkpoint_seq = made.seq;
    s->status.last_checkpoint_samples = (struct bst_metric){(double)s->at.samples, true};
    bst_session_write_status(s);
    return BST_OK;
}

enum bst_err bst_session_set_aside(struct bst_session *s)
{
    char dir[768], bad[1100];
    struct bst_checkpoint *list;
    enum bst_err err = BST_OK;
    int n;
    bst_run_path(s->cfg.dir, "checkpoints", dir);
    if (!bst_io_exists(dir))
        return BST_OK;
    BST_TRY(bst_checkpoint_list(dir, &list, &n));
    for (int i = 0; i < n && !err; i++) {
        snprintf(bad, sizeof bad, "%s.bad", list[i].path);
        if (rename(list[i].path, bad))
            err = bst_fail(BST_E_IO, "%s: cannot be set aside", list[i].path);
    }
    bst_free(list);
    return err ? err : bst_io_sync_dir(dir);
}

/* A checkpoint made on a branch that was rewound away later holds a state the run no longer has. */
static enum bst_err accept(void *arg, const struct bst_checkpoint *c, const char *text)
{
    const struct bst_session *s = arg;
    struct saved state;
    (void)c;
    enum bst_err err = read_state(text, &state);
    bst_free(state.choices);
    BST_TRY(err);
    for (int i = 0; i < bst_journal_count(s->journal); i++) {
        const struct bst_journal_entry *e = bst_journal_at(s->journal, i);
        if (e->rewind && e->seq > state.journal_seq && e->samples < state.at.samples)
            return bst_fail(BST_E_CORRUPT, "was taken back by undo --rewind");
    }
    if (state.journal_seq > bst_journal_seq(s->journal))
        return bst_fail(BST_E_CORRUPT, "the journal has lost changes that this checkpoint knew");
    return BST_OK;
}

static void say_differences(const struct bst_session *s, const struct conditions *was,
                            struct bst_sb *notes)
{
    struct conditions is = conditions_now(s);
    struct bst_sb all;
    bst_sb_init(&all, 400);
    if (was->threads != is.threads)
        bst_sb_addf(&all, " threads %d, now %d;", was->threads, is.threads);
    if (was->ranks != is.ranks)
        bst_sb_addf(&all, " devices %d, now %d;", was->ranks, is.ranks);
    if (strcmp(was->isa, is.isa))
        bst_sb_addf(&all, " instruction set %s, now %s;", was->isa, is.isa);
    if (strcmp(was->library, is.library))
        bst_sb_addf(&all, " library %s, now %s;", was->library, is.library);
    if (strcmp(was->backend, is.backend))
        bst_sb_addf(&all, " backend %s, now %s;", was->backend, is.backend);
    if (strcmp(was->version, is.version))
        bst_sb_addf(&all, " bstune %s, now %s;", was->version, is.version);
    if (all.len)
        bst_sb_addf(notes, "BST-604: the checkpoint was made under other conditions:%.*s\n",
                    (int)all.len - 1, all.data);
    bst_sb_fini(&all);
}

static enum bst_command_kind kind_of(const struct bst_journal_entry *e)
{
    struct bst_command cmd;
    return bst_command_parse(e->command, &cmd) ? BST_COMMAND_BATCH : cmd.kind;
}

/* Changes the checkpoint has in it give the undo list back; later ones wait for their sample. */
static void sort_entries(struct bst_session *s, uint64_t seq)
{
    int n = bst_journal_count(s->journal);
    int *all = bst_xcalloc((size_t)n + 1, sizeof *all);
    struct bst_live before = s->live_start;
    s->n_replay = 0;
    n = bst_journal_surviving(s->journal, all);
    for (int i = 0; i < n; i++) {
        const struct bst_journal_entry *e = bst_journal_at(s->journal, all[i]);
        if (e->seq > seq) {
            all[s->n_replay++] = all[i];
            continue;
        }
        if (!e->rewind)
            bst_session_count_change(s, kind_of(e), &before);
        before = e->live;
    }
    s->replay = all;
}

static enum bst_err put_back(struct bst_session *s, const struct saved *state, struct bst_sb *notes)
{
    s->at = state->at;
    s->live = state->live;
    say_differences(s, &state->conditions, notes);
    s->saved = true;
    s->saved_update = s->at.update;
    s->saved_seq = state->journal_seq;
    s->saved_next_eval = s->at.next_eval;
    s->status.last_checkpoint_samples = (struct bst_metric){(double)s->at.samples, true};
    if (s->live.split.ranks == s->env.ranks)
        return BST_OK;
    return bst_plan_split(&s->live, &s->env);
}

/* A line of the search is a candidate that was set aside. */
static void say_damaged(const struct bst_sb *found, struct bst_sb *notes)
{
    for (const char *p = found->data; *p;) {
        size_t n = strcspn(p, "\n");
        bst_sb_addf(notes, "BST-602: %.*s\n", (int)n, p);
        p += n + (p[n] == '\n');
    }
}

static void say_from_start(const struct bst_session *s, struct bst_sb *notes)
{
    int n = 0, *all;
    if (!s->cfg.repeat) {
        bst_sb_add(notes, "no checkpoint yet: the run starts over\n");
        return;
    }
    all = bst_xcalloc((size_t)bst_journal_count(s->journal) + 1, sizeof *all);
    n = bst_journal_surviving(s->journal, all);
    bst_free(all);
    bst_sb_addf(notes, "a run is repeated, with its %d change%s\n", n, n == 1 ? "" : "s");
}

enum bst_err bst_session_resume(struct bst_session *s, struct bst_sb *notes)
{
    struct bst_sb found;
    char dir[768], *text = NULL;
    struct bst_checkpoint from;
    struct saved state = {0};
    bst_run_path(s->cfg.dir, "checkpoints", dir);
    bst_sb_init(&found, 8192);
    enum bst_err err = bst_checkpoint_load(s->trainer, dir, accept, s, &from, &text, &found);
    say_damaged(&found, notes);
    bst_sb_fini(&found);
    if (err == BST_E_CORRUPT)
        return bst_fail_in(err, "BST-603");
    if (err && err != BST_E_NOTFOUND)
        return err;
    if (err) {
        say_from_start(s, notes);
    } else {
        err = read_state(text, &state);
        if (!err && state.choices)
            bst_trainer_take_choices(s->trainer, state.choices);
        if (!err)
            err = put_back(s, &state, notes);
        bst_free(state.choices);
        s->checkpoint_seq = s->resumed_seq = from.seq;
        bst_free(text);
        BST_TRY(err);
        bst_sb_addf(notes, "resumed from update %" PRIu64 ", sample %" PRIu64 "\n", s->at.update,
                    s->at.samples);
    }
    sort_entries(s, state.journal_seq);
    return bst_metrics_open(s->cfg.dir, state.metrics_bytes, notes, &s->metrics);
}

enum bst_err bst_session_replay(struct bst_session *s)
{
    while (s->next_replay < s->n_replay) {
        const struct bst_journal_entry *e = bst_journal_at(s->journal, s->replay[s->next_replay]);
        if (e->samples > s->at.samples)
            return BST_OK;
        struct bst_live before = s->live;
        s->live = e->live;
        BST_TRY(bst_session_fit(s, &s->live));
        BST_TRY(bst_trainer_set_split(s->trainer, (int64_t)s->live.batch,
                                      (int)s->live.split.accumulate, NULL));
        if (!e->rewind)
            bst_session_count_change(s, kind_of(e), &before);
        /* Had its process ended before preset.yaml was written, or been an earlier version's. */
        if (!strcmp(e->source, BST_SOURCE_RESUME) && kind_of(e) == BST_COMMAND_LENGTH)
            bst_session_plan_length(s, e->command, e->samples);
        s->next_replay++;
        bst_session_note(s, BST_DIAG_NONE, "put back: %s", e->text);
    }
    return BST_OK;
}

enum bst_err bst_session_write_weights(struct bst_session *s)
{
    char path[768], temp[768];
    bst_run_path(s->cfg.dir, "weights.safetensors", path);
    bst_run_path(s->cfg.dir, "weights.safetensors.tmp", temp);
    unlink(temp);
    BST_TRY(bst_trainer_save(s->trainer, BST_STATE_WEIGHTS, temp));
    if (rename(temp, path))
        return bst_fail(BST_E_IO, "%s: cannot be put in place", path);
    return bst_io_sync_dir(s->cfg.dir);
}
