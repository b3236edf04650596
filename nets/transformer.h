/* The encoder and decoder of Vaswani et al. 2017, under the parameter names of torch.nn.Transformer
 * as `transformer` beside one `embedding`. Const; any thread. */
#ifndef NET_TRANSFORMER_H
#define NET_TRANSFORMER_H

#include "core/graph/net.h"

/* Normalising behind each part, as in the paper, or in front. One table serves source, target and
 * the head (3.4 there), positions are sinusoids. Stream 0 is the source, whose padding is masked;
 * stream 1 the target, with a label each. What cfg leaves open is the base model's. */
BST_MUST_USE enum bst_err net_transformer_build(const struct bst_net_cfg *cfg, struct bst_graph *g);

#endif
