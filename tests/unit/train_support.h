/* What the trainer's tests share: two small nets, a configuration on generated images, a backend
 * whose calls can be made to fail. */
#ifndef TRAIN_SUPPORT_H
#define TRAIN_SUPPORT_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>

#include <cmocka.h>

#include "core/train/train.h"

/* conv1 relu conv2 relu pool fc: no batch norm, so that a batch's gradient does not depend on its
 * split. */
extern const struct bst_net train_plain_net;
/* conv1 bn1 relu, conv2 bn2 + residual, relu, pool, fc. */
extern const struct bst_net train_bn_net;

enum { TRAIN_N = 60, EVAL_N = 21 }; /* samples */

struct bst_train_cfg train_cfg(const struct bst_net *net, const char *backend);
struct bst_update_req train_req(uint64_t first, int64_t batch, int micro_batches);

#define ok(expr) train_ok((expr), #expr, __FILE__, __LINE__)
void train_ok(enum bst_err err, const char *what, const char *file, int line);

struct bst_trainer *train_open(const struct bst_train_cfg *cfg);
uint32_t train_hash(struct bst_trainer *t);
/* `n` updates of `batch` in k micro-batches from position 0 on; the last one's result. */
struct bst_update_result train_some(struct bst_trainer *t, int n, int64_t batch, int k);

/* ref with faults: the call numbered `at` of the named slot fails with `err`, from all ranks
 * together. */
enum fault_slot { FAULT_NONE, FAULT_ALLOC, FAULT_RUN, FAULT_SUM, FAULT_SGD, FAULT_DESCRIBE };
void train_fault(enum fault_slot slot, int at, enum bst_err err);
/* Turns a NaN into every gradient that is summed up from now on. */
void train_poison(bool on);
/* Called by run() now and then: stops an update from inside at its at-th instruction. */
void train_stop_at(atomic_int *flag, int at);
extern const struct bst_backend *train_faulty(void);

#endif
