/* Where a run stands that nobody trains now, from what its folder holds: the one place that decides
 * it, for the command line, exports and the console alike. run.json says how it ended, status.json
 * where it was when that was last written, metrics.jsonl what came after. Nothing is made up. Any
 * thread. */
#ifndef BST_RUN_STANDING_H
#define BST_RUN_STANDING_H

#include "core/run/history.h"
#include "core/run/run_dir.h"
#include "core/run/status.h"

/* *s, as last known of the run (or all zero), brought up to what its files say. */
void bst_standing_settle(const struct bst_run_info *info, const struct bst_history *h,
                         struct bst_status *s);
/* The same from the folder alone. An error: status.json is there and cannot be read. */
BST_MUST_USE enum bst_err bst_standing_load(const struct bst_run_info *info,
                                            struct bst_status *out);

#endif
