/* What a command came to, as the JSON that goes to whoever gave it. Pure; any thread. */
#ifndef BST_RUN_REPLY_H
#define BST_RUN_REPLY_H

#include "core/run/client.h"
#include "core/run/preset.h"
#include "core/tune/plan.h"

struct bst_outcome {
    uint64_t id;
    const char *outcome; /* "proposed", "applied", "done", "refused", "dropped" */
    enum bst_diag code;
    char text[512];
    uint64_t update, samples;    /* from which it is in force */
    const struct bst_plan *plan; /* NULL: no settings are involved */
    const struct bst_preset_difference *kept;
    int n_kept;
    struct bst_metric memory_planned, memory_limit;
};

void bst_outcome_print(const struct bst_outcome *o, struct bst_sb *out);
/* "batch 256 → 307, rate 0.05 → 0.06 (peak 0.1 → 0.12); BST-309 …": the rates are those of the next
 * update. */
void bst_outcome_describe(const struct bst_plan *plan, struct bst_sb *out);

#endif
