#!/usr/bin/env python3
"""quickstart-text's training in PyTorch, to see that it ends at the same loss: the same net, starting law, optimizer,
schedule, texts and number of tokens; only the random numbers are others.

usage: torch_text.py [--preset presets/quickstart-text.yaml] [--set key=value]… [--seeds 1,2] [--threads N] [--run DIR]…

Prints the loss of the evaluation part after each epoch and at the end, and with --run (the folder of a bstune run of the
same preset) what came out there.
"""
import argparse
import json
import math
import os
import pathlib
import time

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

PLACE = "/usr/share/common-licenses"


def number(text):
    try:
        return float(text)
    except ValueError:
        return text


def read_preset(path, sets):
    """The flat YAML of a preset without lists: "a: 1" and "a: {b: 1, c: 2}", as {"a": 1, "a.b": 1}."""
    p = {}
    for line in open(path):
        key, colon, value = line.partition(":")
        value = value.strip()
        if not colon or key.startswith((" ", "#")) or value.startswith(("[", ">")):
            continue
        if value.startswith("{"):
            for item in value.strip("{}").split(","):
                inner, _, v = item.partition(":")
                p[f"{key}.{inner.strip()}"] = number(v.strip())
        else:
            p[key] = number(value)
    for s in sets:
        key, _, value = s.partition("=")
        p[key] = number(value)
    return p


def read_text(path):
    """Of every file the last tenth, cut between characters, is for evaluation."""
    files = sorted(f for f in pathlib.Path(path).iterdir() if f.is_file() and not f.is_symlink())
    train, evaluation = b"", b""
    for f in files:
        data = f.read_bytes()
        head = len(data) - len(data) // 10
        while 0 < head < len(data) and data[head] & 0xC0 == 0x80:
            head -= 1
        train, evaluation = train + data[:head], evaluation + data[head:]
    return [torch.from_numpy(np.frombuffer(x, np.uint8).astype(np.int64)) for x in (train, evaluation)]


def windows(text, length):
    """[n, length + 1]: `length` bytes apart, the last of one being the first of the next."""
    n = (len(text) - length - 1) // length + 1
    return torch.stack([text[i * length:i * length + length + 1] for i in range(n)])


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.c_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, t, d = x.shape
        q, k, v = (y.view(n, t, self.heads, -1).transpose(1, 2) for y in self.c_attn(self.ln_1(x)).split(d, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).reshape(n, t, d))
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    """GPT-2 over bytes, the head tied to the embedding; weights start as there."""

    def __init__(self, width, layers, heads, positions):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(256, width), nn.Embedding(positions, width)
        self.h = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(width)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                ends = name.endswith(("c_proj.weight", "c_out.weight"))
                nn.init.normal_(p, 0, 0.02 / math.sqrt(2 * layers) if ends else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight[:tokens.shape[1]]
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.t()


def loss_of(net, rows):
    return F.cross_entropy(net(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())


def evaluate(net, rows):
    with torch.no_grad():
        return sum(loss_of(net, part).item() * len(part) for part in rows.split(64)) / len(rows)


def rate(p, seen, total):
    """Of the update that starts after `seen` samples."""
    warmup = p["warmup_ratio"] * total
    if seen < warmup:
        return p["learning_rate"] * seen / warmup
    least = p["min_lr_ratio"]
    return p["learning_rate"] * (least + (1 - least) * (1 + math.cos(math.pi * (seen - warmup) / (total - warmup))) / 2)


def train(p, parts, seed):
    torch.manual_seed(seed)
    length = int(p["data.length"])
    rows, held_out = (windows(x, length) for x in parts)
    net = Gpt(int(p["model.width"]), int(p["model.layers"]), int(p["model.heads"]), int(p["model.positions"]))
    decayed = [x for x in net.parameters() if x.dim() == 2]
    others = [x for x in net.parameters() if x.dim() != 2]
    opt = torch.optim.AdamW([{"params": decayed}, {"params": others, "weight_decay": 0.0}], lr=1.0,
                            betas=(0.9, p["beta2"]), eps=1e-8, weight_decay=p["weight_decay"])
    batch = round(p["global_batch_size"] / length)
    total = round(p["max_epochs"] * len(rows))
    order = torch.cat([torch.randperm(len(rows)) for _ in range(math.ceil(total / len(rows)))])
    start, last, marks = time.monotonic(), [], len(rows)
    for seen in range(0, total, batch):
        mine = rows[order[seen:min(seen + batch, total)]]
        for group in opt.param_groups:
            group["lr"] = rate(p, seen, total)
        opt.zero_grad(set_to_none=True)
        loss = loss_of(net, mine)
        loss.backward()
        if p["max_grad_norm"] > 0:
            torch.nn.utils.clip_grad_norm_(net.parameters(), p["max_grad_norm"])
        opt.step()
        last.append(loss.item())
        if seen + batch >= marks and seen + batch < total:
            print(f"seed {seed} epoch {marks // len(rows)} eval {evaluate(net, held_out):.4f} "
                  f"{time.monotonic() - start:.0f} s", flush=True)
            marks += len(rows)
    end = evaluate(net, held_out)
    print(f"seed {seed} tokens {total * length} updates {len(last)} eval {end:.4f} "
          f"train, last epoch {np.mean(last[-len(rows) // batch:]):.4f} {time.monotonic() - start:.0f} s", flush=True)
    return end


def of_run(folder):
    lines = [json.loads(x) for x in open(os.path.join(folder, "metrics.jsonl"))]
    updates, evals = ([x for x in lines if x["type"] == kind] for kind in ("update", "eval"))
    print(f"{folder}: tokens {sum(u['tokens'] for u in updates)} updates {len(updates)} eval {evals[-1]['loss']:.4f} "
          f"{updates[-1]['elapsed']:.0f} s")
    return evals[-1]["loss"]


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--preset", default="presets/quickstart-text.yaml")
    a.add_argument("--set", action="append", default=[])
    a.add_argument("--seeds", default="1")
    a.add_argument("--threads", type=int, default=os.cpu_count())
    a.add_argument("--run", action="append", default=[])
    args = a.parse_args()
    torch.set_num_threads(args.threads)
    p = read_preset(args.preset, args.set)
    parts = read_text(p.get("data.path", PLACE))
    torch_loss = np.mean([train(p, parts, int(s)) for s in args.seeds.split(",")])
    if args.run:
        ours = np.mean([of_run(r) for r in args.run])
        print(f"bstune {ours:.4f}, PyTorch {torch_loss:.4f}: {100 * (ours / torch_loss - 1):+.2f} %")


main()
