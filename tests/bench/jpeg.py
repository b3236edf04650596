#!/usr/bin/env python3
"""CPU time per image of loading photographs: bstune's imagefolder beside torchvision's ImageFolder with
DataLoader, in alternating windows of one run on the same cores.

  python3 tests/bench/jpeg.py [--bench build/tests/bench_jpeg] [--folder FOLDER] [--windows 7]

FOLDER has train/CLASS/*.jpg and val/CLASS/*.jpg; without one, synthetic photographs of 500 x 375 are made
(see jpeg_make.py). Needs torch and torchvision; exits 77 without.
"""
import argparse
import glob
import os
import statistics
import subprocess
import sys
import tempfile
import time

COUNT = 400  # images a window
BATCH = 50


def cpu_of(pid):
    """Seconds on a CPU of a process's threads, to the nanosecond."""
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        with open(path) as f:
            total += int(f.read().split()[0])
    return total * 1e-9


class Ours:
    def __init__(self, program, folder, threads):
        self.process = subprocess.Popen(
            [program, folder, str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def window(self, case):
        self.process.stdin.write(f"{case['part']} {case['augment']} {case['float']} {COUNT}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline().split()[0]) / COUNT * 1e6

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Theirs:
    """One loader per case, its worker kept; endless, so that a window starts with work in flight."""

    def __init__(self, folder, case, workers):
        import torch
        import torchvision
        from torchvision import transforms as T

        torch.set_num_threads(1)
        if case["augment"]:
            steps = [T.RandomResizedCrop(224), T.RandomHorizontalFlip()]
        else:
            steps = [T.Resize(256), T.CenterCrop(224)]
        if case["float"]:
            steps += [T.ToTensor(), T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
        else:
            steps += [T.PILToTensor()]
        part = "val" if case["part"] else "train"
        data = torchvision.datasets.ImageFolder(os.path.join(folder, part), T.Compose(steps))
        sampler = torch.utils.data.RandomSampler(data, replacement=True, num_samples=1 << 20)
        self.loader = torch.utils.data.DataLoader(
            data, batch_size=BATCH, sampler=sampler, num_workers=workers, persistent_workers=workers > 0
        )
        self.it = iter(self.loader)
        for _ in range(2):
            next(self.it)

    def used(self):
        pids = [w.pid for w in getattr(self.it, "_workers", [])]
        return time.process_time() + sum(cpu_of(p) for p in pids)

    def window(self):
        start = self.used()
        for _ in range(COUNT // BATCH):
            next(self.it)
        return (self.used() - start) / COUNT * 1e6


CASES = [
    {"name": "train, bytes", "part": 0, "augment": 1, "float": 0},
    {"name": "train, floats", "part": 0, "augment": 1, "float": 1},
    {"name": "eval, bytes", "part": 1, "augment": 0, "float": 0},
]


TARGET = 2.0


def spread(values):
    q = statistics.quantiles(values, n=4)
    return f"{statistics.median(values):7.0f} ({q[0]:.0f}-{q[2]:.0f})"


def measure(case, ours, folder, windows):
    theirs = {w: Theirs(folder, case, w) for w in (0, 1)}
    a, b = [], {w: [] for w in theirs}
    for _ in range(windows):
        a.append(ours.window(case))
        for w, t in theirs.items():
            b[w].append(t.window())
    best = min(b, key=lambda w: statistics.median(b[w]))
    ratios = [y / x for x, y in zip(a, b[best])]
    reached = "" if statistics.median(ratios) >= TARGET else f" (not reached: {TARGET})"
    print(
        f"{case['name']:14} {spread(a)} us   torchvision, {best} workers {spread(b[best])} us   "
        f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f}){reached}",
        flush=True,
    )


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--bench", default="build/tests/bench_jpeg")
    p.add_argument("--folder")
    p.add_argument("--windows", type=int, default=7)
    p.add_argument("--threads", type=int, default=1)
    a = p.parse_args()
    try:
        import torchvision  # noqa: F401
    except ImportError:
        print("torchvision is not installed: nothing to compare with")
        return 77
    with tempfile.TemporaryDirectory() as scratch:
        folder = a.folder
        if not folder:
            import jpeg_make

            folder = os.path.join(scratch, "photographs")
            mean = jpeg_make.write(folder, 100, 500, 375, 90)
            print(f"100 synthetic photographs of 500 x 375, {mean / 1024:.0f} KiB on average")
        print("CPU time per image at 224 x 224: median and quartiles over alternating windows")
        ours = Ours(a.bench, folder, a.threads)
        for case in CASES:
            measure(case, ours, folder, a.windows)
        ours.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
