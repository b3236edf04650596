/* The list of backends. */
#include "core/backend/backend.h"

#include <string.h>

extern const struct bst_backend bst_backend_cpu, bst_backend_ref, bst_backend_ref64;

const struct bst_backend *const bst_backends[] = {
    &bst_backend_cpu,
    &bst_backend_ref,
    &bst_backend_ref64,
    NULL,
};

const struct bst_backend *bst_backend_find(const char *name)
{
    for (int i = 0; bst_backends[i]; i++) {
        if (!strcmp(bst_backends[i]->name, name))
            return bst_backends[i];
    }
    return NULL;
}
