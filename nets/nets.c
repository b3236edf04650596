#include "nets/nets.h"

#include "nets/resnet.h"

static const struct bst_net nets[] = {
    {"resnet8", "three stages of one basic block each, width 16; 0.08 M parameters",
     net_resnet_build},
    {"resnet14", "three stages of two basic blocks each, width 16", net_resnet_build},
    {"resnet20", "three stages of three basic blocks each, width 16; 0.27 M parameters",
     net_resnet_build},
    {"resnet32", "three stages of five basic blocks each, width 16", net_resnet_build},
    {"resnet44", "three stages of seven basic blocks each, width 16", net_resnet_build},
    {"resnet56", "three stages of nine basic blocks each, width 16", net_resnet_build},
    {"resnet110", "three stages of eighteen basic blocks each, width 16", net_resnet_build},
    {"resnet18", "four stages of two basic blocks each, width 64; 11.7 M parameters",
     net_resnet_build},
    {"resnet34", "four stages of 3, 4, 6, 3 basic blocks, width 64; 21.8 M parameters",
     net_resnet_build},
    {"resnet50", "four stages of 3, 4, 6, 3 bottlenecks, width 64; 25.6 M parameters",
     net_resnet_build},
    {"resnet101", "four stages of 3, 4, 23, 3 bottlenecks, width 64; 44.5 M parameters",
     net_resnet_build},
};

const struct bst_net_table net_table = {nets, sizeof nets / sizeof nets[0]};
