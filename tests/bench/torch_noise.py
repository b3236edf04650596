#!/usr/bin/env python3
"""bstune's gradient noise scale beside one computed offline in PyTorch, at the same weights of resnet8 on Fashion-MNIST.

usage: torch_noise.py RUNDIR|WEIGHTS.safetensors... [--micro 16] [--count 1000] [--parts 32] [--updates 72]
           [--csv FILE] [--products FOLDER] [--data FOLDER] [--threads N]      (BSTUNE names the binary)

Of a run's folder every checkpoint is a point. PyTorch: the mean gradient of each of COUNT micro-batches, one pass over the
first COUNT x MICRO images; |G|² from the products of different ones, S from what their squares have beyond it, φ = S/|G|².
bstune: a run over the same images that stands still at those weights (its rate is 1e-9 and nothing decays), UPDATES updates of PARTS
micro-batches. Its last answer agrees when its interval holds PyTorch's φ.

A single run is one draw. So from PyTorch's gradients 200 further runs a point are drawn, micro-batches at random without end, and
answered by the rule of core/tune/noise.c (drawn_answer below): how often that interval holds φ, which is known there exactly.
Where the averages' |G|² is not above 0 there is no interval ("no gradient"), and nothing to hold φ.

With --csv each row is added to FILE as it is measured, and what FILE has already is not measured again; the table printed at
the end is of all its rows. --grid 32x72,32x117 draws runs of these PARTS and UPDATES from what --products kept, and no more."""
import argparse
import csv
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import zlib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
BSTUNE = os.environ.get("BSTUNE", str(ROOT / "build/bstune"))
STILL = {"learning_rate": 1e-9, "weight_decay": 0, "lr_scheduler": "constant", "warmup_epochs": 0, "eval_interval": "never",
         "checkpoint_interval": "never", "advise": "none"}
FIELDS = ["point", "micro", "count", "parts", "updates", "torch_grad_sq", "torch_trace", "torch_scale", "state", "scale", "low", "high",
          "grad_sq", "trace", "drawn", "drawn_told", "drawn_inside", "drawn_known", "drawn_narrow", "torch_seconds", "bstune_seconds"]
# Those of core/tune/noise.c.
SPAN, BLOCK, DRAWS, WIDEST = 256, 8, 800, 10
SIMULATED = 200


def gradients(weights, args):
    """The inner products of the micro-batches' mean gradients, [count, count]."""
    import torch
    import torch.nn.functional as F
    from safetensors.torch import load_file
    from torch_quickstart import MEAN, STD, ResNetCifar, idx

    if args.threads:
        torch.set_num_threads(args.threads)
    net = ResNetCifar()
    missing, _ = net.load_state_dict(load_file(weights), strict=False)
    assert all(m.endswith("num_batches_tracked") for m in missing), missing
    n = args.count * args.micro
    images, labels = idx(args.data, "train-images-idx3-ubyte"), idx(args.data, "train-labels-idx1-ubyte")
    assert n <= len(images), f"{args.count} micro-batches of {args.micro} are more than one pass over {len(images)} images"
    x = ((torch.tensor(images[:n], dtype=torch.float32) / 255 - MEAN) / STD)[:, None]
    y = torch.tensor(labels[:n], dtype=torch.long)
    net.train()
    rows = None
    for i, take in enumerate(torch.randperm(n, generator=torch.Generator().manual_seed(1)).split(args.micro)):
        net.zero_grad(set_to_none=True)
        F.cross_entropy(net(x[take]), y[take]).backward()
        g = torch.cat([p.grad.flatten() for p in net.parameters()])
        if rows is None:
            rows = torch.empty(args.count, len(g))
        rows[i] = g
    gram = torch.zeros(args.count, args.count, dtype=torch.float64)
    for part in rows.split(8192, 1):
        part = part.double()
        gram += part @ part.T
    return gram.numpy()


def scale_of(gram, micro):
    """|G|², S and their ratio; no micro-batch is multiplied by itself for |G|²."""
    n = len(gram)
    small = np.trace(gram) / n
    grad_sq = (gram.sum() - np.trace(gram)) / (n * (n - 1))
    trace = micro * (small - grad_sq)
    return grad_sq, trace, trace / grad_sq


def tail_of(n):
    z, f = 1.959963984540054, n - 1
    t = (z + (z**3 + z) / (4 * f) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * f**2)
         + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * f**3))
    return math.erfc(t * math.sqrt(n / f) / math.sqrt(2)) / 2


def drawn_answer(grad_sq, trace, rng):
    """State and interval of core/tune/noise.c, from |G|² and S of up to 768 updates."""
    weight = np.exp(-np.arange(len(grad_sq) - 1, -1, -1) / SPAN)
    edges = np.arange(0, len(grad_sq), BLOCK)
    g, s = np.add.reduceat(weight * grad_sq, edges), np.add.reduceat(weight * trace, edges)
    if g.sum() <= 0:
        return "no gradient", math.nan, math.nan
    drawn = rng.integers(len(g), size=(DRAWS, len(g)))
    below, above = g[drawn].sum(1), np.maximum(s[drawn].sum(1), 0)
    n = weight.sum()**2 / (np.add.reduceat(weight, edges)**2).sum()
    cut = int(tail_of(n) * DRAWS)
    ratio = np.sort(np.where(below > 0, above / np.where(below > 0, below, 1), np.inf))
    low, high = ratio[cut], ratio[DRAWS - 1 - cut]
    return ("known" if low > 0 and high <= WIDEST * low else "wide"), low, high


def draw_runs(gram, args, phi):
    """How many of the drawn runs have an interval, how many of these hold φ, are answered, and are no wider than 4 times."""
    rng = np.random.default_rng(1)
    k = args.parts
    told = inside = known = narrow = 0
    for _ in range(SIMULATED):
        first = rng.integers(len(gram), size=args.updates)
        # k different micro-batches an update; the population is one that does not run out.
        step = rng.integers(1, (len(gram) - 1) // (k - 1) + 1, size=(args.updates, k - 1)).cumsum(1)
        take = np.concatenate([first[:, None], (first[:, None] + step) % len(gram)], 1)
        big = gram[take[:, :, None], take[:, None, :]].mean((1, 2))
        small = gram[take[:, 0], take[:, 0]]
        state, low, high = drawn_answer((k * big - small) / (k - 1), (small - big) * args.micro * k / (k - 1), rng)
        told += state != "no gradient"
        inside += low <= phi <= high
        known += state == "known"
        narrow += state == "known" and high <= 4 * low
    return told, inside, known, narrow


def drawn_shares(told, inside, known, narrow):
    """In the words of a table; of the intervals, those that hold φ, of all runs, the others."""
    return " | ".join(f"{n} of {all}" for n, all in ((inside, told), (known, SIMULATED), (narrow, SIMULATED)))


def measured(weights, args, seed):
    """The last line of type noise of a run that stands still at `weights`."""
    k = args.parts
    sets = {**STILL, "data.train_count": args.count * args.micro, "global_batch_size": k * args.micro, "max_steps": args.updates,
            "lr_base_batch_size": k * args.micro, "micro_batch_size": args.micro, "seed": seed}
    if args.threads:
        sets["devices.threads"] = args.threads
    with tempfile.TemporaryDirectory(prefix="bst-noise-") as place:
        said = pathlib.Path(place) / "said"
        with open(said, "wb") as out:
            rc = subprocess.call([BSTUNE, "run", str(ROOT / "presets/quickstart.yaml"), "--headless", "--run-dir", f"{place}/run",
                                  "--init", str(weights), *[x for a, v in sets.items() for x in ("--set", f"{a}={v}")]],
                                 stdout=out, stderr=out, cwd=place)
        if rc:
            raise SystemExit(f"{weights}: {said.read_text()}")
        lines = [json.loads(s) for s in open(f"{place}/run/metrics.jsonl") if '"type":"noise"' in s]
    return lines[-1]


def seed_of(point, args):
    """Other samples for each, or all would err alike."""
    return 1 + zlib.crc32(f"{point}, {args.parts}x{args.updates}".encode()) % 1000000


def points(names):
    for name in map(pathlib.Path, names):
        found = sorted(name.glob("checkpoints/*/weights.safetensors")) if name.is_dir() else [name.resolve()]
        if not found:
            raise SystemExit(f"{name} has no checkpoint")
        for w in found:
            of_run = w.parent.parent.name == "checkpoints"
            yield f"{w.parents[2].name}, update {w.parent.name.split('-')[-1]}" if of_run else w.stem, w


def products(point, weights, args):
    """gradients(), or what an earlier call kept of them."""
    kept = pathlib.Path(args.products or ".") / f"{point.replace(', ', '-').replace(' ', '-')}-{args.count}x{args.micro}.npy"
    if args.products and kept.exists():
        return np.load(kept)
    gram = gradients(weights, args)
    if args.products:
        np.save(kept, gram)
    return gram


def rows_of(path):
    if not path or not os.path.exists(path):
        return []
    with open(path, newline="") as f:
        return list(csv.DictReader(f))


def keep(path, row):
    if not path:
        return
    new = not os.path.exists(path)
    with open(path, "a", newline="") as f:
        w = csv.DictWriter(f, FIELDS)
        if new:
            w.writeheader()
        w.writerow(row)


def short(x):
    return f"{float(x):.3g}" if float(x) < 100 else f"{float(x):.0f}"


def table(rows):
    print("| weights | batch, updates | PyTorch | bstune | interval | holds it | drawn: inside | answered | within 4× |")
    print("|---|---|---|---|---|---|---|---|---|")
    for r in rows:
        known = r["state"] == "known"
        holds = known and float(r["low"]) <= float(r["torch_scale"]) <= float(r["high"])
        drawn = drawn_shares(*(int(r["drawn_" + c]) for c in ("told", "inside", "known", "narrow")))
        print(f"| {r['point']} | {int(r['parts']) * int(r['micro'])}, {r['updates']} | {short(r['torch_scale'])} | "
              + (f"{short(r['scale'])} | {short(r['low'])} to {short(r['high'])}" if known else f"unknown | {r['state']}")
              + f" | {'yes' if holds else 'no' if known else ''} | {drawn} |")
    answered = [r for r in rows if r["state"] == "known"]
    inside = sum(float(r["low"]) <= float(r["torch_scale"]) <= float(r["high"]) for r in answered)
    narrow = sum(float(r["high"]) <= 4 * float(r["low"]) for r in answered)
    off = [math.log(float(r["scale"]) / float(r["torch_scale"])) for r in answered]
    line = f"\n{len(answered)} of {len(rows)} answered, {narrow} within 4×, {inside} hold PyTorch's"
    if len(off) > 1:
        line += (f"; logarithm of bstune's over PyTorch's: mean {np.mean(off):+.3f}, standard error "
                 f"{np.std(off, ddof=1) / math.sqrt(len(off)):.3f}")
    print(line)


def grid(args):
    """The drawn runs alone, of every point whose products were kept, at other batches and lengths."""
    print("| weights | PyTorch | batch, updates | inside | answered | within 4× |\n|---|---|---|---|---|---|")
    for kept in sorted(pathlib.Path(args.products).glob(f"*-{args.count}x{args.micro}.npy")):
        gram = np.load(kept)
        phi = scale_of(gram, args.micro)[2]
        for way in args.grid.split(","):
            args.parts, args.updates = map(int, way.split("x"))
            shares = drawn_shares(*draw_runs(gram, args, phi))
            print(f"| {kept.stem.rsplit('-', 1)[0]} | {short(phi)} | {args.parts * args.micro}, {args.updates} | {shares} |", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("weights", nargs="*")
    p.add_argument("--micro", type=int, default=16)
    p.add_argument("--count", type=int, default=1000)
    p.add_argument("--parts", type=int, default=32)
    p.add_argument("--updates", type=int, default=72)
    p.add_argument("--csv")
    p.add_argument("--products", help="folder that keeps the inner products of PyTorch's gradients, 8 MB a point")
    p.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--grid", help="PARTSxUPDATES,...: the drawn runs alone, from what --products has")
    args = p.parse_args()
    if args.grid:
        grid(args)
        return
    rows = rows_of(args.csv)
    have = {(r["point"], *(int(r[k]) for k in ("micro", "count", "parts", "updates"))) for r in rows}
    for point, weights in points(args.weights):
        if (point, args.micro, args.count, args.parts, args.updates) in have:
            continue
        start = time.monotonic()
        gram = products(point, weights, args)
        between = time.monotonic()
        grad_sq, trace, phi = scale_of(gram, args.micro)
        m = measured(weights.resolve(), args, seed_of(point, args))
        took = time.monotonic() - between
        told, inside, known, narrow = draw_runs(gram, args, phi)
        rows.append({"point": point, "micro": args.micro, "count": args.count, "parts": args.parts, "updates": args.updates,
                     "torch_grad_sq": grad_sq, "torch_trace": trace, "torch_scale": phi, "state": m["state"],
                     "scale": m["noise_scale"], "low": m["low"], "high": m["high"], "grad_sq": m["grad_sq"], "trace": m["trace"],
                     "drawn": SIMULATED, "drawn_told": told, "drawn_inside": inside, "drawn_known": known, "drawn_narrow": narrow,
                     "torch_seconds": round(between - start, 1), "bstune_seconds": round(took, 1)})
        keep(args.csv, rows[-1])
        print(f"{point}: PyTorch {phi:.4g}, bstune {m['noise_scale']} ({m['low']} to {m['high']})", file=sys.stderr)
    table(rows)


if __name__ == "__main__":
    main()
