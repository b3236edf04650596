/* Language models that only decode, under the parameter names of Hugging Face's GPT2LMHeadModel.
 * Const; any thread. */
#ifndef NET_GPT_H
#define NET_GPT_H

#include "core/graph/net.h"

/* Hugging Face's files: of GPT2LMHeadModel, and of GPT2Model, which has no prefix. */
extern const struct bst_net_names net_gpt_names;

/* GPT-2 (Radford et al. 2019): layer norm in front of each part, learned positions, GELU by tanh,
 * the head's weight the embedding's. What cfg leaves open is that of the 124 M net; a sample is
 * cfg->length[0] tokens, with a label each. */
BST_MUST_USE enum bst_err net_gpt_build(const struct bst_net_cfg *cfg, struct bst_graph *g);

#endif
