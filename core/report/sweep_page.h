/* The report of a batch sweep: one HTML page that needs no other file, its plots also as SVG and
 * PNG, its table also as CSV. One thread. */
#ifndef BST_REPORT_SWEEP_PAGE_H
#define BST_REPORT_SWEEP_PAGE_H

#include "core/run/study.h"

/* Writes report.html, report.csv, accuracy, speed and curves (.svg and .png) into `dir`, which is
 * made where it is missing. */
BST_MUST_USE enum bst_err bst_sweep_report(const struct bst_study *s, const char *dir);

#endif
