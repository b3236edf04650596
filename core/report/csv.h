/* A run as comma-separated values (RFC 4180): a header, then a row an update and a row an
 * evaluation, in order. An empty cell was not recorded; "nan" was not finite. */
#ifndef BST_REPORT_CSV_H
#define BST_REPORT_CSV_H

#include "core/base/sb.h"
#include "core/report/rows.h"

void bst_csv_header(struct bst_sb *out);
/* Nothing for rows of other kinds. */
void bst_csv_row(struct bst_sb *out, const struct bst_row *row);

#endif
