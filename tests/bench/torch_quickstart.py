#!/usr/bin/env python3
"""quickstart's training in PyTorch: same net, schedule, batches and data; prints a line per run, and means.

usage: torch_quickstart.py [--epochs 5] [--seeds 1,2,3] [--batch 32,64,128] [--csv FILE] [--data FOLDER] [--threads N]

With --csv each run's row is added to FILE as it ends, and what FILE has already is not run again.
"""
import argparse
import csv
import gzip
import math
import os
import time

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

MEAN, STD = 0.2860, 0.3530


def idx(folder, name):
    with gzip.open(os.path.join(folder, name + ".gz"), "rb") as f:
        raw = f.read()
    rank = raw[3]
    dims = [int.from_bytes(raw[4 + 4 * i:8 + 4 * i], "big") for i in range(rank)]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * rank).reshape(dims)


class Block(nn.Module):
    def __init__(self, n_in, n_out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(n_out)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(n_out)
        self.downsample = None
        if stride != 1 or n_in != n_out:
            self.downsample = nn.Sequential(nn.Conv2d(n_in, n_out, 1, stride, bias=False),
                                            nn.BatchNorm2d(n_out))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNetCifar(nn.Module):
    """6n+2 layers, widths 16-32-64, 1x1 projection shortcuts."""

    def __init__(self, n=1, width=16, classes=10, channels=1):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        n_in = width
        for stage in range(3):
            blocks = []
            for i in range(n):
                n_out = width << stage
                blocks.append(Block(n_in, n_out, 2 if stage and not i else 1))
                n_in = n_out
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(n_in, classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(x.mean((2, 3)))


def rate(samples, peak, warmup, total):
    if samples < warmup:
        return peak * samples / warmup
    q = (samples - warmup) / (total - warmup)
    return peak * (1 + math.cos(math.pi * q)) / 2


def train(batch, seed, args, x, y, tx, ty):
    torch.manual_seed(seed)
    net = ResNetCifar().to(memory_format=torch.channels_last)
    peak = 0.1 * batch / 256
    opt = torch.optim.SGD(net.parameters(), lr=peak, momentum=0.9, weight_decay=args.weight_decay)
    n, total, seen = len(x), args.epochs * len(x), 0
    order = torch.cat([torch.randperm(n) for _ in range(args.epochs)])
    start = time.time()
    while seen < total:
        take = order[seen:seen + batch]
        for group in opt.param_groups:
            group["lr"] = rate(seen, peak, n, total)
        loss = F.cross_entropy(net(x[take]), y[take])
        opt.zero_grad()
        loss.backward()
        opt.step()
        seen += len(take)
    net.eval()
    with torch.no_grad():
        right = sum((net(tx[i:i + 500]).argmax(1) == ty[i:i + 500]).sum().item()
                    for i in range(0, len(tx), 500))
    return right / len(tx), time.time() - start


def known(path):
    if not path or not os.path.exists(path):
        return {}
    with open(path) as f:
        rows = csv.DictReader(f)
        return {(int(r["batch"]), int(r["seed"])): float(r["accuracy"]) for r in rows}


def add(path, batch, seed, accuracy, seconds):
    fresh = not os.path.exists(path)
    with open(path, "a") as f:
        if fresh:
            f.write("batch,seed,accuracy,seconds\n")
        f.write(f"{batch},{seed},{accuracy:.4f},{seconds:.0f}\n")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=5)
    p.add_argument("--seeds", default="1,2,3")
    p.add_argument("--batch", default="128")
    p.add_argument("--csv")
    p.add_argument("--weight-decay", type=float, default=1e-4)
    p.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    args = p.parse_args()
    torch.set_num_threads(args.threads)

    def images(name):
        a = torch.from_numpy(idx(args.data, name + "-images-idx3-ubyte").copy()).float()
        return ((a / 255 - MEAN) / STD)[:, None].contiguous(memory_format=torch.channels_last)

    def labels(name):
        return torch.from_numpy(idx(args.data, name + "-labels-idx1-ubyte").astype(np.int64))

    sets = images("train"), labels("train"), images("t10k"), labels("t10k")
    have = known(args.csv)
    for batch in map(int, args.batch.split(",")):
        got = []
        for seed in map(int, args.seeds.split(",")):
            accuracy, seconds = have.get((batch, seed)), 0
            if accuracy is None:
                accuracy, seconds = train(batch, seed, args, *sets)
                if args.csv:
                    add(args.csv, batch, seed, accuracy, seconds)
            print(f"seed {seed} batch {batch} accuracy {accuracy:.4f} seconds {seconds:.0f}", flush=True)
            got.append(accuracy)
        print(f"batch {batch} mean {sum(got) / len(got):.4f}", flush=True)


if __name__ == "__main__":
    main()
