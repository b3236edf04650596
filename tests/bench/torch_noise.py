#!/usr/bin/env python3
"""The gradient noise scale of resnet8 on Fashion-MNIST at given weights, offline in PyTorch: the mean gradient of each
of N micro-batches, |G|² and S from all of them, an interval from micro-batches drawn with replacement.

usage: torch_noise.py WEIGHTS.safetensors [--micro 64] [--count 1000] [--data FOLDER] [--threads N] [--metrics FILE]

With --metrics, the last line of type "noise" in that metrics.jsonl is printed beside it. A run that stands still at
those weights:
  bstune run quickstart --headless --run-dir DIR --init WEIGHTS.safetensors --set noise_scale=split \\
      --set learning_rate=1e-9 --set weight_decay=0 --set lr_scheduler=constant --set warmup_epochs=0 \\
      --set max_epochs=1 --set eval_interval=never --set checkpoint_interval=never
"""
import argparse
import json

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

from torch_quickstart import MEAN, STD, ResNetCifar, idx


def gradients(net, x, y, args):
    """Squared norms of every micro-batch's mean gradient, and their inner products with the mean of all."""
    rng = torch.Generator().manual_seed(1)
    order = torch.cat([torch.randperm(len(x), generator=rng)
                       for _ in range(-(-args.count * args.micro // len(x)))])
    rows = []
    for i in range(args.count):
        take = order[i * args.micro:(i + 1) * args.micro]
        net.zero_grad(set_to_none=True)
        F.cross_entropy(net(x[take]), y[take]).backward()
        rows.append(torch.cat([p.grad.flatten() for p in net.parameters()]).numpy().copy())
    return np.stack(rows)


def scale(squares, pairs, n, b):
    """From the sums over micro-batches of |g|² and of all inner products: |G|², S, their ratio."""
    small, big = squares / n, pairs / n**2
    grad_sq = (n * b * big - b * small) / (n * b - b)
    trace = (small - big) / (1 / b - 1 / (n * b))
    return grad_sq, trace, trace / grad_sq


def main():
    p = argparse.ArgumentParser()
    p.add_argument("weights")
    p.add_argument("--micro", type=int, default=64)
    p.add_argument("--count", type=int, default=1000)
    p.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--metrics")
    args = p.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    net = ResNetCifar()
    missing, _ = net.load_state_dict(load_file(args.weights), strict=False)
    assert all(m.endswith("num_batches_tracked") for m in missing), missing
    images, labels = idx(args.data, "train-images-idx3-ubyte"), idx(args.data, "train-labels-idx1-ubyte")
    x = ((torch.tensor(images, dtype=torch.float32) / 255 - MEAN) / STD)[:, None]
    y = torch.tensor(labels, dtype=torch.long)
    g = gradients(net.train(), x, y, args).astype(np.float64)
    gram = g @ g.T
    grad_sq, trace, phi = scale(np.trace(gram), gram.sum(), len(g), args.micro)
    rng = np.random.default_rng(1)
    drawn = []
    for _ in range(400):
        # A micro-batch drawn twice is no second witness: its product with itself stays out of the pairs.
        c = rng.multinomial(len(g), np.full(len(g), 1 / len(g))).astype(float)
        own = (c * np.diag(gram)).sum()
        cross = c @ gram @ c - (c * c * np.diag(gram)).sum()
        n_cross = len(g)**2 - (c * c).sum()
        drawn.append(args.micro * (own / len(g) - cross / n_cross) / (cross / n_cross))
    low, high = np.percentile(drawn, [2.5, 97.5])
    print(f"PyTorch: |G|² {grad_sq:.5g}, S {trace:.5g}, noise scale {phi:.4g} ({low:.4g} to {high:.4g}) "
          f"over {args.count} micro-batches of {args.micro}")
    if args.metrics:
        last = [json.loads(line) for line in open(args.metrics) if '"type":"noise"' in line][-1]
        print(f"bstune: |G|² {last['grad_sq']:.5g}, S {last['trace']:.5g}, noise scale {last['noise_scale']} "
              f"({last['low']} to {last['high']}), {last['state']}, over {last['updates_measured']} updates")
        inside = last["low"] <= phi <= last["high"]
        print("PyTorch's lies in bstune's interval" if inside else "PyTorch's lies outside bstune's interval")


if __name__ == "__main__":
    main()
