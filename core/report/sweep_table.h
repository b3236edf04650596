/* What a batch sweep has come to, as a table for people and as JSON. Any thread. */
#ifndef BST_REPORT_SWEEP_TABLE_H
#define BST_REPORT_SWEEP_TABLE_H

#include "core/base/sb.h"
#include "core/run/study.h"

/* What target, efficiency and choice mean stands under it. */
void bst_sweep_print(const struct bst_study *s, struct bst_sb *out);
void bst_sweep_print_json(const struct bst_study *s, struct bst_sb *out);
void bst_sweep_print_csv(const struct bst_study *s, struct bst_sb *out);
/* What choice, target and the other columns mean, a line each, none over 80 columns; nothing before
 * there is a row. */
void bst_sweep_explain(const struct bst_sweep *w, struct bst_sb *out);
/* "fastest", "most accurate", "choice", "largest tried that fits": those of a row, ", " between. */
void bst_sweep_marks(const struct bst_sweep_row *row, struct bst_sb *out);

#endif
