#include "core/graph/net.h"

#include <string.h>

const struct bst_net *bst_net_find(const struct bst_net_table *t, const char *name)
{
    for (int i = 0; i < t->n_nets; i++) {
        if (!strcmp(t->nets[i].name, name))
            return &t->nets[i];
    }
    return NULL;
}
