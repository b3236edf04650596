/* The way back: lists of what can be undone and redone, the state that is held from just before the
 * last change, and the rewind to it. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/base/json.h"
#include "core/run/session_inner.h"

/* Far above what it was: the last update's loss, of which one may be an accident, and their mean.
 */
#define LOSS_FAR 2.0
#define LOSS_MEAN_FAR 1.5

static void push(struct bst_live *list, int *n, const struct bst_live *live)
{
    if (*n == BST_UNDO_MAX) {
        memmove(list, list + 1, (BST_UNDO_MAX - 1) * sizeof *list);
        --*n;
    }
    list[(*n)++] = *live;
}

void bst_session_count_change(struct bst_session *s, enum bst_command_kind kind,
                              const struct bst_live *before)
{
    struct bst_undo *u = &s->undo;
    if (kind == BST_COMMAND_UNDO) {
        u->n_undo -= u->n_undo > 0;
        push(u->redo, &u->n_redo, before);
    } else if (kind == BST_COMMAND_REDO) {
        u->n_redo -= u->n_redo > 0;
        push(u->undo, &u->n_undo, before);
    } else {
        u->n_redo = 0;
        push(u->undo, &u->n_undo, before);
    }
}

enum bst_err bst_session_plan_back(struct bst_session *s, struct bst_proposal *p,
                                   const struct bst_plan_env *env)
{
    const struct bst_undo *u = &s->undo;
    bool undo = p->cmd.kind == BST_COMMAND_UNDO;
    /* The settings are back already, the weights are wanted too. */
    bool rest = p->cmd.rewind && s->have_hold && s->held_undone;
    if (!rest && (undo ? !u->n_undo : !u->n_redo)) {
        p->refused = BST_DIAG_NOTHING_TO_UNDO;
        return bst_fail(BST_E_STATE, undo ? "no change is left to undo" : "nothing was undone");
    }
    if (p->cmd.rewind && !s->have_hold) {
        p->refused = BST_DIAG_REWIND_GONE;
        return bst_fail(BST_E_STATE, "the weights from before the last change are not held");
    }
    const struct bst_live *held = rest   ? &s->held_live
                                  : undo ? &u->undo[u->n_undo - 1]
                                         : &u->redo[u->n_redo - 1];
    BST_TRY(bst_plan_return(&s->live, held, env, &p->plan));
    /* After a rewind the next update is the one that the change was made before. */
    if (p->cmd.rewind)
        p->plan.lr_after =
            bst_schedule_lr(&s->held_live.schedule, s->held_at.samples, s->held_live.batch);
    return BST_OK;
}

/* Time does not go back, and a change that the preset asked for is not made twice. */
void bst_session_back_to_hold(struct bst_session *s)
{
    struct bst_progress now = s->at;
    s->at = s->held_at;
    s->at.elapsed = now.elapsed;
    s->at.next_planned = now.next_planned;
}

/* From the journal on, the rewind has happened: a resume goes by what is written there. */
enum bst_err bst_session_rewind(struct bst_session *s)
{
    struct bst_live before = s->live, undone = before;
    /* What `redo` brings again is the change, not the settings it was undone to. */
    if (s->held_undone && s->undo.n_redo)
        undone = s->undo.redo[s->undo.n_redo - 1];
    if (!s->held_checkpoint)
        BST_TRY(bst_session_set_aside(s));
    s->live = s->held_live;
    enum bst_err err = bst_session_write_entry(s, s->held_at.update + 1, s->held_at.samples);
    if (err) {
        s->live = before;
        return err;
    }
    s->pending->journalled = true;
    BST_TRY(bst_trainer_rewind(s->trainer));
    bst_session_back_to_hold(s);
    s->undo = s->held_undo;
    push(s->undo.redo, &s->undo.n_redo, &undone);
    s->have_hold = s->held_undone = s->saved = false;
    s->loss_last = s->loss_mean = s->held_loss;
    BST_TRY(bst_metrics_back(s->metrics, s->held_metrics));
    BST_TRY(bst_trainer_set_split(s->trainer, (int64_t)s->live.batch, (int)s->live.split.accumulate,
                                  NULL));
    /* One that fails is said and tried again at the next mark. */
    if (!bst_session_save(s))
        return BST_OK;
    s->at.next_checkpoint = s->at.samples;
    return BST_OK;
}

enum bst_err bst_session_hold(struct bst_session *s, enum bst_command_kind kind)
{
    BST_TRY(bst_trainer_hold(s->trainer));
    s->have_hold = true;
    s->held_undone = false;
    s->held_loss = s->loss_mean;
    s->held_at = s->at;
    s->held_live = s->live;
    s->held_undo = s->undo;
    /* A rewind puts what it took away on that list again. */
    if (kind == BST_COMMAND_REDO)
        s->held_undo.n_redo -= s->held_undo.n_redo > 0;
    s->held_metrics = bst_metrics_bytes(s->metrics);
    s->held_checkpoint = s->checkpoint_seq;
    return BST_OK;
}

bool bst_session_keeps_hold(const struct bst_session *s, const struct bst_proposal *p)
{
    return p->cmd.kind == BST_COMMAND_UNDO && !p->cmd.rewind && s->have_hold && !s->held_undone;
}

static bool has_gone_bad(const struct bst_session *s)
{
    if (!s->at.update || s->at.update == s->held_at.update)
        return false;
    return !isfinite(s->loss_last) || s->loss_last > LOSS_FAR * s->held_loss ||
           s->loss_mean > LOSS_MEAN_FAR * s->held_loss;
}

void bst_session_hint_rewind(const struct bst_session *s, const struct bst_proposal *p,
                             struct bst_sb *out)
{
    char was[32], is[32] = "not finite";
    bool done = p == s->pending;
    if (p->cmd.kind != BST_COMMAND_UNDO || p->cmd.rewind || !s->have_hold ||
        s->held_undone != done || !has_gone_bad(s))
        return;
    bst_num_brief(s->held_loss, 3, was);
    if (isfinite(s->loss_last))
        bst_num_brief(s->loss_last, 3, is);
    bst_sb_addf(out, "; the loss is %s", is);
    if (isfinite(s->held_loss))
        bst_sb_addf(out, ", before the change it was %s", was);
    bst_sb_add(out, ": `undo --rewind` brings the weights back as well");
}
