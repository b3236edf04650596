#include "core/report/csv.h"

#include <math.h>

#include "core/base/json.h"

static void cell(struct bst_sb *out, double x)
{
    char text[32];
    bst_num_text(x, text);
    bst_sb_addc(out, ',');
    bst_sb_add(out, text);
}

void bst_csv_header(struct bst_sb *out)
{
    int n;
    const struct bst_row_field *f = bst_row_fields(&n);
    bst_sb_add(out, "type,update,samples,epoch,elapsed");
    for (int i = 0; i < n; i++)
        bst_sb_addf(out, ",%s%s", f[i].of_eval ? "eval_" : "", f[i].name);
    bst_sb_add(out, "\r\n");
}

void bst_csv_row(struct bst_sb *out, const struct bst_row *row)
{
    int n;
    const struct bst_row_field *f = bst_row_fields(&n);
    bool update = row->kind == BST_ROW_UPDATE;
    if (!update && row->kind != BST_ROW_EVAL)
        return;
    bst_sb_add(out, update ? "update" : "eval");
    if (update)
        cell(out, (double)row->update->update);
    else
        bst_sb_addc(out, ',');
    cell(out, row->samples);
    if (update)
        cell(out, row->update->epoch);
    else
        bst_sb_addc(out, ',');
    cell(out, row->seconds);
    for (int i = 0; i < n; i++) {
        double x = f[i].of_eval != update ? f[i].get(row) : NAN;
        bool bad = update && row->update->nonfinite && f[i].bad;
        if (isfinite(x))
            cell(out, x);
        else
            bst_sb_add(out, bad ? ",nan" : ",");
    }
    bst_sb_add(out, "\r\n");
}
