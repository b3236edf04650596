"""Training speed on a GPU beside PyTorch's: gpu.py BENCH_GPU [options]; ./dev bench gpu.

ResNet-50 at batch 256 in fp16 and bf16. bstune's updates are the trainer's own, loader and copies to the
device included; PyTorch's are of one batch that lies there already. Contestants are processes that take
turns in short windows on the same device; figures are medians over the rounds, ratios medians of the
ratios within a round. Behind it a table by kind of operation.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
WANT = 1.15  # of PyTorch's best


class Refused(Exception):
    pass


class Contestant:
    def __init__(self, label, command, env=None):
        self.label = label
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env,
                                        stderr=subprocess.PIPE, text=True)
        first = self.process.stdout.readline().strip()
        if not first.startswith("ready"):
            self.process.stdin.close()
            raise Refused(f"{label}: {self.process.stderr.read().strip()[-300:] or 'ended'}")
        self.about = first[len("ready "):]

    def ask(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        answer = self.process.stdout.readline()
        if not answer:
            raise Refused(f"{self.label}: {line}: {self.process.stderr.read().strip()[-300:] or 'ended'}")
        return json.loads(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def rounds(contestants, batch, n_rounds, window):
    """Samples a second of each, a round at a time: {label: [rate]}."""
    n = {}
    for c in contestants:
        c.ask("full 1")
        n[c.label] = max(1, round(window / max(c.ask("full 2")["seconds"] / 2, 1e-6)))
    rates = {c.label: [] for c in contestants}
    for i in range(n_rounds):
        for c in contestants if i % 2 == 0 else reversed(contestants):
            rates[c.label].append(n[c.label] * batch / c.ask(f"full {n[c.label]}")["seconds"])
    return rates


def by_op(instructions):
    """Instructions of one update, added up by operation, the dearest first."""
    sums = {}
    for i in instructions:
        s = sums.setdefault(i["op"], {"op": i["op"], "n": 0, "ms": 0.0, "mbytes": 0.0, "gflop": 0.0})
        s["n"] += 1
        for k in ("ms", "mbytes", "gflop"):
            s[k] += i[k]
    return sorted(sums.values(), key=lambda s: -s["ms"])


def op_lines(sums):
    lines = ["| operation | instructions | ms | share | GB/s | TFLOP/s |", "|---|---|---|---|---|---|"]
    total = sum(s["ms"] for s in sums) or 1
    for s in sums:
        ms = max(s["ms"], 1e-9)
        tflops = f"{s['gflop'] / ms:.1f}" if s["gflop"] else ""
        lines.append(f"| {s['op']} | {s['n']} | {s['ms']:.3f} | {100 * s['ms'] / total:.1f} % | "
                     f"{s['mbytes'] / ms:.0f} | {tflops} |")
    lines.append(f"| all | {sum(s['n'] for s in sums)} | {total:.3f} | | | |")
    return lines


def bench(case, args, env=None):
    """One net at one precision: (lines of markdown, result)."""
    net, size, classes, batch, precision = case
    words = [net, str(size), str(classes), str(batch), precision]
    contestants, left_out = [Contestant("bstune", [args.bench_gpu, *words], env)], []
    for mode in args.torch if args.python else []:
        try:
            contestants.append(Contestant(f"torch {mode}", [args.python, os.path.join(HERE, "torch_gpu.py"), mode, *words]))
        except Refused as e:
            left_out.append(str(e))
    if not args.python:
        left_out.append("PyTorch: no Python with torch was named")
    try:
        rates = rounds(contestants, batch, args.rounds, args.window)
        memory = {c.label: c.ask("memory") for c in contestants}
        sums = by_op(contestants[0].ask(f"kinds {args.updates}")["instructions"])
        torch_kinds = {c.label: c.ask(f"kinds {args.updates}")["kinds"] for c in contestants[1:]}
    finally:
        for c in contestants:
            c.close()
    result = {"net": net, "batch": batch, "precision": precision, "size": size,
              "rates": {k: statistics.median(v) for k, v in rates.items()}, "memory": memory, "ops": sums,
              "torch_kinds": torch_kinds, "left_out": left_out}
    lines = [f"### {net}, {size}x{size}, batch {batch}, {precision}", "", contestants[0].about, "",
             "| | samples/s | bytes taken |", "|---|---|---|"]
    for c in contestants:
        lines.append(f"| {c.label} | {result['rates'][c.label]:.1f} | {memory[c.label].get('taken', 'n/a')} |")
    if len(contestants) > 1:
        best = max(contestants[1:], key=lambda c: result["rates"][c.label]).label
        result["ratio"] = statistics.median(a / b for a, b in zip(rates["bstune"], rates[best]))
        lines += ["", f"bstune over {best}: {result['ratio']:.3f} (wanted: {WANT})"]
    lines += [""] + [f"Left out: {e}." for e in left_out] + [""] * bool(left_out) + op_lines(sums)
    for label, kinds in torch_kinds.items():
        lines += ["", f"{label}, ms: " + ", ".join(f"{k} {v:.3f}" for k, v in sorted(kinds.items(), key=lambda e: -e[1]))]
    return lines, result


def main():
    p = argparse.ArgumentParser()
    p.add_argument("bench_gpu")
    p.add_argument("--python", default="", help="a Python that has torch and torchvision")
    p.add_argument("--torch", default="eager,compile")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--window", type=float, default=1.5, help="seconds")
    p.add_argument("--updates", type=int, default=5, help="of the tables by operation")
    p.add_argument("--batch", type=int, default=256)
    args = p.parse_args()
    args.torch = [m for m in args.torch.split(",") if m]
    for precision in ("fp16", "bf16"):
        try:
            lines, _ = bench(("resnet50", 224, 1000, args.batch, precision), args)
        except Refused as e:
            print(f"not measured: {e}", file=sys.stderr)
            return 1
        print("\n".join(lines) + "\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
