/* A backend made to be difficult: ref64 behind layouts that differ from instruction to instruction,
 * fused forms it refuses at will, descriptions that fail at will, and handles that are counted. Its
 * numbers are ref64's to the bit, so that whatever the compiler makes of it can be compared
 * exactly. */
#ifndef TESTS_NET_TWIST_H
#define TESTS_NET_TWIST_H

#include "core/backend/backend.h"

struct twist {
    unsigned refuse; /* BST_IF_* it has no fused form for */
    bool plain;      /* one layout only */
    int fail_at;     /* the description of this number fails with BST_E_NOMEM; 0: none */
    int n_described; /* so far */
    int held;        /* handles not released */
};
extern struct twist twist; /* what the backend does; one thread */

const struct bst_backend *twist_backend(void);

#endif
