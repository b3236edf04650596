/* The LR range test as a picture. One thread. */
#ifndef BST_REPORT_LR_PLOT_H
#define BST_REPORT_LR_PLOT_H

#include "core/report/plot.h"
#include "core/run/find.h"

/* Freed by the caller. */
struct bst_plot *bst_lr_plot(const struct bst_lr_result *r, const char *title);

#endif
