#!/usr/bin/env python3
"""Prints nets_torchvision.txt: the parameters and statistics of torchvision's ResNets, in order.
Needs torchvision; run by hand when a net is added."""
import torchvision

for name in ("resnet18", "resnet34", "resnet50", "resnet101"):
    print("net", name)
    for key, value in getattr(torchvision.models, name)().state_dict().items():
        if not key.endswith("num_batches_tracked"):
            print(key, ",".join(map(str, value.shape)))
