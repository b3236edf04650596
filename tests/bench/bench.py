"""Training speed and memory beside PyTorch on this machine: bench.py BENCH_TRAIN [options] [NET...].

Every contestant is a process that trains on command. They take turns in short windows on the same
cores, so that what else the machine does meets all of them; the figures are medians over the windows
with the quartiles as spread, and ratios are medians of ratios within a round.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))


@dataclass
class Case:
    """A net, what both sides' workers are told of it, and what is to be reached."""
    about: str
    words: tuple
    script: str       # PyTorch's worker
    unit: str
    per_update: int   # of that unit
    want_ratio: float
    want_part: float  # of the ceiling; 0: none is asked for
    want_rss: float


def images(name, stem, channels, size, classes, batch, want_ratio, want_part):
    words = (name, stem, channels, size, classes, batch)
    return Case(f"{name} {size}x{size}, batch {batch}", words, "torch_train.py", "images", batch,
                want_ratio, want_part, 0.8)


def gpt(layers, width, heads, length, vocabulary, batch, want_ratio=0.0):
    words = ("gpt", layers, width, heads, length, vocabulary, batch)
    about = f"gpt {layers}x{width}, T {length}, V {vocabulary}, batch {batch}"
    return Case(about, words, "torch_gpt.py", "tokens", length * batch, want_ratio, 0, 0.7)


CASES = {
    "resnet8": images("resnet8", "default", 1, 28, 10, 128, 1.40, 0.88),
    "resnet18": images("resnet18", "cifar", 3, 32, 10, 128, 1.25, 0.95),
    "resnet50": images("resnet50", "imagenet", 3, 224, 1000, 16, 1.40, 0.93),
    "gpt512": gpt(6, 512, 8, 256, 8192, 8, 1.25),
    "gpt256": gpt(4, 256, 8, 128, 256, 32, 1.30),
}
# As many tokens in each: only attention's work grows with T, and no memory should.
LENGTHS = {f"T{t}": gpt(4, 256, 8, t, 256, 4096 // t) for t in (128, 256, 512, 1024, 2048, 4096)}
GROUPS = {"gpt": ["gpt512", "gpt256"], "lengths": list(LENGTHS)}


class Contestant:
    def __init__(self, label, command):
        self.label = label
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.rates = []

    def ready(self):
        if self.process.stdout.readline().strip() != "ready":
            raise RuntimeError(f"{self.label}: {self.process.stderr.read().strip()[-400:]}")

    def ask(self, line):
        return float(self.ask_text(line))

    def ask_text(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self.label}: {self.process.stderr.read().strip()[-400:]}")
        return answer

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def quartiles(values):
    if len(values) < 4:
        return min(values), max(values)
    q = statistics.quantiles(values, n=4)
    return q[0], q[2]


def shown(values):
    low, high = quartiles(values)
    digits = 1 if statistics.median(values) < 100 else 0
    return f"{statistics.median(values):.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        for line in f:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return "unknown processor"


def start_all(case, args):
    words = [str(w) for w in case.words] + [str(args.threads)]
    torch = os.path.join(HERE, case.script)
    contestants = {"bstune": Contestant("bstune", [args.bench_train, *words])}
    for mode in args.torch:
        contestants[mode] = Contestant(mode, [args.python, torch, mode, *words])
    for label in list(contestants):
        try:
            contestants[label].ready()
        except RuntimeError as e:
            if label == "bstune":
                raise
            print(f"  left out: {e}", file=sys.stderr)
            del contestants[label]
    return contestants


def run_windows(contestants, per_update, args):
    """Images or tokens/s of each in turn, a round at a time: {label: [rate of each round]}."""
    turns = [("bstune", "full"), ("ceiling", "ceiling")] + \
            [(m, "full") for m in contestants if m != "bstune"]
    rates = {label: [] for label, _ in turns}
    updates = {}
    for label, verb in turns:
        worker = contestants["bstune" if label == "ceiling" else label]
        worker.ask(f"{verb} 1")
        once = worker.ask(f"{verb} 1")
        updates[label] = max(1, round(args.window / once))
    start = time.monotonic()
    for i in range(args.rounds):
        if i > 1 and args.budget and time.monotonic() - start > args.budget:
            break
        for label, verb in (turns if i % 2 == 0 else reversed(turns)):
            worker = contestants["bstune" if label == "ceiling" else label]
            n = updates[label]
            rates[label].append(n * per_update / worker.ask(f"{verb} {n}"))
    return rates


def bench(case, args):
    contestants = start_all(case, args)
    rates = run_windows(contestants, case.per_update, args)
    rss = {label: c.ask("rss") for label, c in contestants.items()}
    where = contestants["bstune"].ask_text("profile 5").split() if args.profile else []
    for c in contestants.values():
        c.close()
    modes = [m for m in rates if m not in ("bstune", "ceiling")]
    row = {"net": f"{case.about}, {case.unit}/s", "bstune": shown(rates["bstune"]),
           "ceiling": shown(rates["ceiling"])}
    part = statistics.median(a / b for a, b in zip(rates["bstune"], rates["ceiling"]))
    row["of ceiling"] = f"{part:.3f}" + (f" (want {case.want_part})" if case.want_part else "")
    row["peak MB"] = f"{rss['bstune'] / 1e6:.0f}"
    for m in modes:
        row[f"torch {m}"] = shown(rates[m])
    if modes:
        best = max(modes, key=lambda m: statistics.median(rates[m]))
        ratio = statistics.median(a / b for a, b in zip(rates["bstune"], rates[best]))
        row["over torch"] = f"{ratio:.2f}" + \
            (f" (want {case.want_ratio})" if case.want_ratio else "")
        row["torch MB"] = f"{rss[best] / 1e6:.0f}"
        row["memory"] = f"{rss['bstune'] / rss[best]:.2f} (want {case.want_rss})"
    if where:
        row["profile, ms"] = ", ".join(f"{op} {ms}" for op, ms in zip(where[::2], where[1::2]))
    return row


def markdown(setting, rows):
    keys = list(dict.fromkeys(k for row in rows for k in row))
    lines = [setting + ".", "", "| " + " | ".join(keys) + " |", "|" + " --- |" * len(keys)]
    lines += ["| " + " | ".join(row.get(k, "") for k in keys) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bench_train")
    parser.add_argument("nets", nargs="*", help=", ".join([*CASES, *GROUPS]))
    parser.add_argument("--python", default="", help="a Python that has torch and torchvision")
    parser.add_argument("--torch", default="eager,compile", help="modes; empty: none")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--budget", type=float, default=0, help="seconds for a net's rounds; 0: all")
    parser.add_argument("--window", type=float, default=2.0, help="seconds")
    parser.add_argument("--processor", action="store_true",
                        help="time of all threads together, for a machine that has other work")
    parser.add_argument("--profile", action="store_true",
                        help="processor time by kind of instruction")
    parser.add_argument("--markdown", metavar="FILE", help="also write the table there")
    args = parser.parse_intermixed_args()
    if args.processor:
        os.environ.update(BENCH_CLOCK="processor", OMP_WAIT_POLICY="passive")
    args.torch = [m for m in args.torch.split(",") if m and args.python]
    setting = (f"{processor()}, {args.threads} threads; per second"
               f"{' of processor time' if args.processor else ''}, median (quartiles) of "
               f"{args.rounds} windows of about {args.window:g} s")
    print(setting)
    rows = []
    cases = {**CASES, **LENGTHS}
    for name in [n for net in args.nets or CASES for n in GROUPS.get(net, [net])]:
        rows.append(bench(cases[name], args))
        for key, value in rows[-1].items():
            print(f"  {key:14} {value}", flush=True)
        print()
    if args.markdown:
        with open(args.markdown, "w", encoding="utf-8") as f:
            f.write(markdown(setting, rows))


if __name__ == "__main__":
    main()
