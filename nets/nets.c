#include "nets/nets.h"

#include "nets/bert.h"
#include "nets/gpt.h"
#include "nets/resnet.h"
#include "nets/transformer.h"

static const struct bst_net nets[] = {
    {"resnet8", "three stages of one basic block each, width 16; 0.08 M parameters",
     net_resnet_build, BST_INPUT_IMAGES, NULL},
    {"resnet14", "three stages of two basic blocks each, width 16", net_resnet_build,
     BST_INPUT_IMAGES, NULL},
    {"resnet20", "three stages of three basic blocks each, width 16; 0.27 M parameters",
     net_resnet_build, BST_INPUT_IMAGES, NULL},
    {"resnet32", "three stages of five basic blocks each, width 16", net_resnet_build,
     BST_INPUT_IMAGES, NULL},
    {"resnet44", "three stages of seven basic blocks each, width 16", net_resnet_build,
     BST_INPUT_IMAGES, NULL},
    {"resnet56", "three stages of nine basic blocks each, width 16", net_resnet_build,
     BST_INPUT_IMAGES, NULL},
    {"resnet110", "three stages of eighteen basic blocks each, width 16", net_resnet_build,
     BST_INPUT_IMAGES, NULL},
    {"resnet18", "four stages of two basic blocks each, width 64; 11.7 M parameters",
     net_resnet_build, BST_INPUT_IMAGES, NULL},
    {"resnet34", "four stages of 3, 4, 6, 3 basic blocks, width 64; 21.8 M parameters",
     net_resnet_build, BST_INPUT_IMAGES, NULL},
    {"resnet50", "four stages of 3, 4, 6, 3 bottlenecks, width 64; 25.6 M parameters",
     net_resnet_build, BST_INPUT_IMAGES, NULL},
    {"resnet101", "four stages of 3, 4, 23, 3 bottlenecks, width 64; 44.5 M parameters",
     net_resnet_build, BST_INPUT_IMAGES, NULL},
    {"gpt", "decoder of 12 blocks, 12 heads, width 768, as GPT-2; 124 M parameters", net_gpt_build,
     BST_INPUT_NEXT, &net_gpt_names},
    {"transformer", "encoder and decoder of 6 blocks each, 8 heads, width 512; as Vaswani et al.",
     net_transformer_build, BST_INPUT_TRANSLATE, NULL},
    {"bert", "encoder of 12 blocks, 12 heads, width 768, with both heads of its pre-training",
     net_bert_build, BST_INPUT_MASKED, &net_bert_names},
};

const struct bst_net_table net_table = {nets, sizeof nets / sizeof nets[0]};
