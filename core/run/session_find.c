/* The searches of find.h at an update boundary of a live run: which one waits, its phase, what came
 * of it. Whatever that is, the run goes on as if nothing had been. */
#include <stdio.h>
#include <string.h>

#include "core/base/alloc.h"
#include "core/run/field.h"
#include "core/run/find.h"
#include "core/run/request.h"
#include "core/run/session_inner.h"

enum { FILE_CAP = 8 << 20 };

static void progress(void *arg, const char *text)
{
    struct bst_session *s = arg;
    snprintf(s->status.search, sizeof s->status.search, "%s: %s",
             bst_command_word(s->find_cmd.kind), text);
    bst_session_publish(s, false);
}

static struct bst_find make_find(struct bst_session *s)
{
    struct bst_find f = {
        .trainer = s->trainer,
        .ranks = (int)s->env.ranks,
        .stop = &s->interrupt,
        .progress = progress,
        .arg = s,
        .req = bst_request_of(&s->live, s->at.samples),
    };
    f.req.nesterov = s->preset.nesterov;
    return f;
}

/* Beside the run's other files; the run does not depend on it. */
static void write_points(struct bst_session *s, const struct bst_lr_result *r)
{
    char name[64];
    struct bst_sb sb;
    snprintf(name, sizeof name, "lrfind-%llu.jsonl", (unsigned long long)s->at.update);
    bst_sb_init(&sb, FILE_CAP);
    bst_lr_print(r, &sb);
    if (bst_run_write(s->cfg.dir, name, &sb))
        bst_session_note(s, BST_DIAG_METRICS_FAILING, "%s", bst_err_text());
    bst_sb_fini(&sb);
}

/* What a search says in the end. What found nothing out is told to whoever asked, in the journal
 * and the log; the status goes on with what the search before it found. */
struct said {
    bool found;
    enum bst_diag code;
    bool restored;
    char text[400];
};

static enum bst_err run_fit(struct bst_session *s, struct said *said)
{
    struct bst_find f = make_find(s);
    struct bst_fit_cfg cfg = {.most = s->find_cmd.count, .global_batch = f.req.batch};
    struct bst_fit_result *r = bst_xalloc(sizeof *r);
    struct bst_sb text;
    enum bst_err err = bst_find_fit(&f, &cfg, r);
    said->restored = r->restored;
    if (!err) {
        bst_sb_init(&text, sizeof said->text - 1);
        bst_fit_describe(r, &text);
        bst_copy_text(said->text, sizeof said->text, text.data);
        bst_sb_fini(&text);
        said->code = !r->largest ? BST_DIAG_NOTHING_FITS
                     : r->uneven ? BST_DIAG_FIT_UNEVEN
                                 : BST_DIAG_FIT_FOUND;
        said->found = true;
        s->status.found_micro = (struct bst_metric){(double)r->largest, r->largest > 0};
    }
    bst_free(r);
    return err;
}

static enum bst_err run_lr(struct bst_session *s, struct said *said)
{
    struct bst_find f = make_find(s);
    struct bst_lr_cfg cfg = {.range = BST_LR_RANGE_USUAL, .repeats = 1};
    struct bst_lr_result *r = bst_xalloc(sizeof *r);
    struct bst_sb text;
    if (s->find_cmd.count)
        cfg.range.updates = (int)s->find_cmd.count;
    if (s->find_cmd.repeats)
        cfg.repeats = s->find_cmd.repeats;
    enum bst_err err = bst_find_lr(&f, &cfg, r);
    said->restored = r->restored;
    if (!err) {
        bst_sb_init(&text, sizeof said->text - 1);
        bst_lr_describe(r, &text);
        if (!r->s.doubt)
            bst_sb_addf(&text, "; `lr =%.3g` proposes it", r->s.steepest);
        bst_copy_text(said->text, sizeof said->text, text.data);
        bst_sb_fini(&text);
        said->code = r->s.doubt ? BST_DIAG_LR_UNCLEAR : BST_DIAG_LR_FOUND;
        said->found = true;
        s->status.found_rate = (struct bst_metric){r->s.steepest, !r->s.doubt};
        write_points(s, r);
    }
    bst_free(r);
    return err;
}

/* The proposal is worked out as if it were to be made, and then only tried. */
static enum bst_err run_trial(struct bst_session *s, struct said *said)
{
    struct bst_find f = make_find(s);
    struct bst_proposal *p = bst_xalloc(sizeof *p);
    struct bst_trial_result r = {.restored = true};
    struct bst_sb text;
    enum bst_err err = bst_command_parse(s->find_cmd.tried, &p->cmd);
    if (!err)
        err = bst_session_propose(s, p);
    if (!err) {
        struct bst_trial_cfg cfg = {
            .without = &s->live,
            .with = &p->plan.after,
            .momentum_factor = p->plan.momentum_factor,
            .samples = s->at.samples,
            .total = s->live.schedule.total,
            .update = s->at.update,
            .nesterov = s->preset.nesterov,
            .updates = (int)s->find_cmd.count,
        };
        err = bst_find_trial(&f, &cfg, &r);
    }
    said->restored = r.restored;
    if (!err) {
        bst_sb_init(&text, sizeof said->text - 1);
        bst_sb_addf(&text, "%s: ", s->find_cmd.tried);
        bst_trial_describe(&r, &text);
        bst_copy_text(said->text, sizeof said->text, text.data);
        bst_sb_fini(&text);
        said->code = BST_DIAG_TRIAL_TOLD;
        said->found = true;
    } else {
        said->code = p->refused;
    }
    bst_free(p);
    return err;
}

static void settle(struct bst_session *s, const char *outcome, const struct said *said)
{
    struct bst_inbound in = s->find_for;
    char code[16];
    s->find_waiting = false;
    bst_copy_text(s->status.search, sizeof s->status.search, s->found);
    bst_session_journal(s, &in, outcome, said->code, said->text);
    if (said->found)
        bst_session_note_journalled(s, said->code, said->text);
    else
        bst_session_tell_change(s, &in, outcome, said->code, s->at.update, said->text);
    if (!said->found && said->code && s->server) {
        bst_diag_code(said->code, code);
        bst_server_event(s->server, "note", code, said->text);
    }
    bst_session_answer_text(s, &in, outcome, said->code, said->text);
    bst_session_publish(s, true);
}

void bst_session_find_drop(struct bst_session *s, const char *why)
{
    struct said said = {.code = BST_DIAG_SEARCH_CANCELLED};
    bst_copy_text(said.text, sizeof said.text, why);
    if (s->find_waiting)
        settle(s, "dropped", &said);
}

void bst_session_find_ask(struct bst_session *s, const struct bst_inbound *in,
                          const struct bst_command *cmd)
{
    if (s->find_waiting) {
        bst_session_answer_text(s, in, "refused", BST_DIAG_NONE, "a search waits already");
        return;
    }
    s->find_waiting = true;
    s->find_for = *in;
    s->find_cmd = *cmd;
}

enum bst_err bst_session_find(struct bst_session *s)
{
    struct said said = {.restored = true};
    s->finding = true;
    s->find_cut = false;
    bst_server_searching(s->server, s->find_for.client);
    s->status.search[0] = '\0';
    bst_session_phase(s, BST_PHASE_SEARCHING);
    enum bst_err err = s->find_cmd.kind == BST_COMMAND_FIT     ? run_fit(s, &said)
                       : s->find_cmd.kind == BST_COMMAND_TRIAL ? run_trial(s, &said)
                                                               : run_lr(s, &said);
    s->finding = false;
    bst_server_searching(s->server, 0);
    if (!err) {
        bst_copy_text(s->found, sizeof s->found, said.text);
        settle(s, said.code == BST_DIAG_NOTHING_FITS ? "refused" : "done", &said);
        return BST_OK;
    }
    if (!said.restored)
        return err; /* whoever asked is told when the run ends of it */
    s->find_cut = err == BST_E_CANCELLED;
    if (err == BST_E_CANCELLED) {
        bst_session_find_drop(s, "search cancelled; the run is as it was");
        return BST_OK;
    }
    const char *text = bst_err_text();
    said.code = bst_session_code_of(said.code, &text);
    bst_copy_text(said.text, sizeof said.text, text);
    if (!said.code && err == BST_E_NOMEM)
        said.code = BST_DIAG_OUT_OF_MEMORY;
    settle(s, "refused", &said);
    return BST_OK;
}
