/* What a device's failure does to the run. */
#include <inttypes.h>
#include <stdio.h>

#include "core/base/log.h"
#include "core/run/field.h"
#include "core/run/session_inner.h"
#include "core/tune/fault.h"

/* A host has no context to lose; its failures end the run as they are. Another process can be lost
 * whatever trains. */
static const struct bst_fault_rule *rule_of(const struct bst_session *s, enum bst_err err)
{
    bool devices = s->train_cfg.backend && s->train_cfg.backend->own_memory;
    return devices || err == BST_E_PEER ? bst_fault_rule(err) : NULL;
}

enum bst_err bst_session_fault(struct bst_session *s, enum bst_err err)
{
    char why[400];
    const struct bst_fault_rule *rule = rule_of(s, err);
    bst_copy_text(why, sizeof why, bst_err_text());
    bool again = rule && (rule->verdict == BST_FAULT_RETRY || rule->verdict == BST_FAULT_DROP);
    if (!again || !bst_trainer_intact(s->trainer))
        return err;
    if (++s->n_dropped >= BST_FAULT_TRIES)
        return bst_fail(err, "update %" PRIu64 " failed %d times: %s", s->at.update + 1,
                        s->n_dropped, why);
    bst_session_note(s, rule->code, "update %" PRIu64 " was dropped and is taken again: %s",
                     s->at.update + 1, why);
    return BST_OK;
}

/* Ranks have the same state, and rank 0's is what a checkpoint holds: if its device still answers,
 * nothing is lost. */
void bst_session_fault_end(struct bst_session *s, enum bst_err err, char *why, size_t room)
{
    char text[400];
    const struct bst_fault_rule *rule = rule_of(s, err);
    bool started = s->metrics && s->at.update > 0;
    bool lost = err == BST_E_CONTEXT || err == BST_E_DEVICE;
    /* What fails at the start is told as it is; there is nothing to be saved yet. */
    if (!rule || !s->trainer || !(started || lost))
        return;
    bst_copy_text(text, sizeof text, why);
    if (started && bst_trainer_intact(s->trainer) && !bst_session_save(s))
        snprintf(why, room, "%.250s; saved at update %" PRIu64 ", --resume goes on from there",
                 text, s->at.update);
    else if (s->saved)
        snprintf(why, room,
                 "%.250s; the state on the devices is lost, --resume goes on from update %" PRIu64,
                 text, s->saved_update);
    /* A call that only dropped an update elsewhere has cut an optimizer's step in two here. */
    bool whole = lost || bst_trainer_intact(s->trainer);
    enum bst_diag code = whole ? rule->code : BST_DIAG_CONTEXT_LOST;
    bst_session_note_last(s, code, why);
    char word[16];
    bst_diag_code(code, word);
    bst_copy_text(text, sizeof text, why);
    snprintf(why, room, "%s: %.380s", word, text);
}
