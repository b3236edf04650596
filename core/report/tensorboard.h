/* TensorBoard event files: records of protocol buffers (tensorflow/core/util/event.proto), each
 * framed by its length and masked CRC-32C (tensorflow/core/lib/io/record_writer). The step is the
 * number of samples, so that runs of different batches lie over each other. One thread. */
#ifndef BST_REPORT_TENSORBOARD_H
#define BST_REPORT_TENSORBOARD_H

#include "core/base/sb.h"
#include "core/report/rows.h"

/* The record that every file starts with. */
void bst_tensorboard_header(struct bst_sb *out, double wall);
/* wall: seconds since 1970 at which the run's own time was 0. Events of the journal become text;
 * going back becomes the mark by which TensorBoard drops what it had. */
void bst_tensorboard_row(struct bst_sb *out, const struct bst_row *row, double wall);

#endif
