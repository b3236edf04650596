#include "core/run/standing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/run/field.h"

/* What run.json's word for a run without a trainer means. */
static enum bst_phase phase_of(const char *state)
{
    static const struct {
        const char *state;
        enum bst_phase phase;
    } phases[] = {
        {"running", BST_PHASE_TRAINING},    {"done", BST_PHASE_DONE},
        {"stopped", BST_PHASE_STOPPED},     {"killed", BST_PHASE_KILLED},
        {"preempted", BST_PHASE_PREEMPTED},
    };
    for (size_t i = 0; i < sizeof phases / sizeof phases[0]; i++)
        if (!strcmp(phases[i].state, state))
            return phases[i].phase;
    return BST_PHASE_FAILED;
}

/* Whether a line of the log says why, rather than how far the run was. */
static bool is_complaint(const char *line)
{
    static const char *const starts[] = {"error: ", "bstune"};
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
        if (!strncmp(line, starts[i], strlen(starts[i])))
            return true;
    return false;
}

/* The log's last line, where a trainer that died had something to say. */
static void last_words(const char *dir, char *out, size_t room)
{
    enum { TAIL = 4096 };
    char path[768], tail[TAIL + 1];
    bst_run_path(dir, "log", path);
    FILE *f = fopen(path, "re");
    out[0] = '\0';
    if (!f)
        return;
    if (!fseek(f, 0, SEEK_END)) {
        long size = ftell(f);
        size_t n = 0;
        if (size > 0 && !fseek(f, size > TAIL ? size - TAIL : 0, SEEK_SET))
            n = fread(tail, 1, TAIL, f);
        while (n && (tail[n - 1] == '\n' || tail[n - 1] == '\r'))
            n--;
        tail[n] = '\0';
        const char *line = strrchr(tail, '\n');
        line = line ? line + 1 : tail;
        if (is_complaint(line))
            bst_copy_clean(out, room < 190 ? room : 190, line);
    }
    fclose(f);
}

static void say_how(const struct bst_run_info *info, const struct bst_history *h,
                    struct bst_status *s)
{
    char words[200];
    bool begun = s->update || h->n_updates;
    /* What a trainer said as it gave up stands; what is left by one that was killed says nothing of
     * that. */
    bool said = s->note[0] && (begun || s->phase != BST_PHASE_KILLED);
    if (!bst_phase_is_failure(s->phase) || said)
        return;
    last_words(info->dir, words, sizeof words);
    snprintf(s->note, sizeof s->note, "%s%s%s%s", info->state,
             begun ? "" : " before its first update", words[0] ? ": " : "", words);
    s->note_code[0] = '\0';
}

static void take_last_update(const struct bst_history *h, struct bst_status *s)
{
    const struct bst_history_update *u = &h->updates[h->n_updates - 1];
    bool knows_batch = s->global_batch > 0 && s->update == u->update;
    s->update = u->update;
    s->samples = (uint64_t)u->samples;
    s->epoch = u->epoch;
    if (!s->samples_per_epoch && u->epoch > 0)
        s->samples_per_epoch = (int64_t)llround(u->samples / u->epoch);
    /* The run's last update may have been cut off: its batch is not the one in force. */
    if (!knows_batch) {
        s->global_batch = u->global_batch;
        s->micro_batch = u->micro_batch;
        s->accumulation = u->accumulation;
    }
    s->learning_rate = bst_metric_of(u->learning_rate);
    s->loss = (struct bst_metric){u->loss, true};
    s->grad_norm = (struct bst_metric){u->grad_norm, true};
    s->elapsed_seconds = bst_metric_of(u->seconds);
    for (int i = 0; i < h->n_evals; i++) {
        s->eval_loss = bst_metric_of(h->evals[i].loss);
        s->eval_accuracy = bst_metric_of(h->evals[i].accuracy);
        s->eval_exact = bst_metric_of(h->evals[i].exact);
        if (!s->best_accuracy.valid || h->evals[i].accuracy > s->best_accuracy.value)
            s->best_accuracy = s->eval_accuracy;
    }
}

void bst_standing_settle(const struct bst_run_info *info, const struct bst_history *h,
                         struct bst_status *s)
{
    if (!s->run[0]) {
        bst_copy_clean(s->run, sizeof s->run, info->name);
        bst_copy_clean(s->preset, sizeof s->preset, info->preset);
        bst_copy_clean(s->host, sizeof s->host, info->host);
        bst_copy_clean(s->dir, sizeof s->dir, info->dir);
    }
    s->phase = phase_of(info->state);
    s->eta_seconds.valid = false;
    s->samples_per_sec.valid = s->tokens_per_sec.valid = false;
    s->n_clients = 0;
    if (h->n_updates)
        take_last_update(h, s);
    say_how(info, h, s);
}

enum bst_err bst_standing_load(const struct bst_run_info *info, struct bst_status *out)
{
    struct bst_history *h;
    enum bst_err err = bst_status_load(info->dir, out);
    if (err == BST_E_NOTFOUND)
        *out = (struct bst_status){0};
    else
        BST_TRY(err);
    BST_TRY(bst_history_open(info->dir, &h));
    /* A trainer that ended by itself wrote its status last of all. */
    if (err || phase_of(info->state) == BST_PHASE_KILLED)
        while (bst_history_poll(h))
            continue;
    bst_standing_settle(info, h, out);
    bst_history_close(h);
    return BST_OK;
}
