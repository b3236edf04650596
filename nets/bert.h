/* BERT with the heads that it is pre-trained with (Devlin et al. 2019), under the parameter names
 * of Hugging Face's BertForPreTraining. Const; any thread. */
#ifndef NET_BERT_H
#define NET_BERT_H

#include "core/graph/net.h"

/* Hugging Face's files: of BertForPreTraining and of its parts, TensorFlow's words for norms too.
 */
extern const struct bst_net_names net_bert_names;

/* Stream 0 is the tokens, whose padding is masked, with a label where one was hidden; stream 1
 * their segments. Two losses: of the hidden tokens, and of whether the second segment follows the
 * first. What cfg leaves open is the base model's. */
BST_MUST_USE enum bst_err net_bert_build(const struct bst_net_cfg *cfg, struct bst_graph *g);

#endif
