/* One file of CIFAR-10's binary version. One thread. Internal to core/data. */
#ifndef BST_DATA_CIFAR10_H
#define BST_DATA_CIFAR10_H

#include "core/data/inmem.h"

/* Exactly n records of dir/name into samples first … first + n - 1 of p, which has room for them.
 */
BST_MUST_USE enum bst_err bst_cifar10_read(struct bst_inmem_part *p, int64_t first, int64_t n,
                                           const char *dir, const char *name);

#endif
