/* ResNets under torchvision's parameter names. Const; any thread. */
#ifndef NET_RESNET_H
#define NET_RESNET_H

#include "core/graph/net.h"

/* For every name of the family: resnet18, 34, 50, 101 (He et al. 2015, table 1) and any other
 * resnetD with D = 6n+2 (section 4.2, three stages). */
BST_MUST_USE enum bst_err net_resnet_build(const struct bst_net_cfg *cfg, struct bst_graph *g);

#endif
