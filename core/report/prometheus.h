/* Where a run stands, in Prometheus's text format, for the textfile collector of its node exporter
 * or any other that reads it. Base units; what is not known has no line. Any thread. */
#ifndef BST_REPORT_PROMETHEUS_H
#define BST_REPORT_PROMETHEUS_H

#include "core/base/sb.h"
#include "core/run/status.h"

/* live: somebody trains it now. */
void bst_prometheus_print(struct bst_sb *out, const struct bst_status *s, bool live);

#endif
