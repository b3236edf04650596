/* The nets that bstune knows by name. tui/main.c hands this table to core/run. Const; any thread.
 */
#ifndef NET_NETS_H
#define NET_NETS_H

#include "core/graph/net.h"

extern const struct bst_net_table net_table;

#endif
