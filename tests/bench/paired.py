#!/usr/bin/env python3
"""What a setting costs: processor seconds a sample of whole runs that differ in it alone, side by side.

usage: paired.py split|recompute [--turns N] [--seconds S] [--set KEY=VALUE]...   (BSTUNE names the binary)

All runs are there from the start, and all but one are stopped (SIGSTOP); they take turns in windows from the end of one
update to the end of another, in an order that changes from turn to turn, so that a drift of the machine falls on all alike.
Each has one thread, unless --set devices.threads says otherwise.
A ratio is that of two windows of one turn; its interval is of the mean of their logarithms. Processor time is that of all
threads of a trainer (/proc/PID/task/*/schedstat), which other work on the machine moves less than the wall clock.

split      noise_scale: split against none: one device, quickstart's batch cut in two for the gradient noise scale.
recompute  ResNet-50 at 224x224: recompute auto with half the activations taken from its memory, and {every: 1}, against none;
           the memory is that of `bstune mem`."""
import argparse
import itertools
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

from watching import BSTUNE, cpu_seconds, interval

# One thread: two wait for each other, which costs processor time of its own, most of all beside other work.
ALL = {"max_epochs": 100000, "eval_interval": "never", "checkpoint_interval": "never", "advise": "none", "devices.threads": 1}
RESNET50 = {"data.format": "shapes", "model.in_channels": 3, "data.image_size": 224, "augment": "none", "global_batch_size": 2}


class Contestant:
    """A trainer that stands still but for its windows."""

    def __init__(self, label, place, env, preset, settings):
        self.label = label
        self.dir = pathlib.Path(place) / label.replace(" ", "-")
        self.cost, self.wall = [], []
        sets = [x for k, v in {**ALL, **settings}.items() for x in ("--set", f"{k}={v}")]
        said = f"{self.dir}.out"
        with open(said, "wb") as out:
            self.process = subprocess.Popen([BSTUNE, "run", preset, "--headless", "--run-dir", str(self.dir), *sets], env=env,
                                            cwd=place, stdout=out, stderr=out)
        metrics = self.dir / "metrics.jsonl"
        while not (metrics.exists() and metrics.stat().st_size):
            if self.process.poll() is not None:
                raise SystemExit(f"{label}: {pathlib.Path(said).read_text()}")
            time.sleep(0.01)
        self.lines = open(metrics, "rb", buffering=0)
        self.rest, self.samples = b"", 0
        self.edge()
        self.process.send_signal(signal.SIGSTOP)

    def edge(self):
        """Waits for an update to end; the samples so far."""
        before = self.samples
        while self.samples == before:
            some = self.lines.read()
            if not some:
                time.sleep(0.001)
                continue
            *whole, self.rest = (self.rest + some).split(b"\n")
            for m in map(json.loads, whole):
                if m["type"] == "update":
                    self.samples = m["samples"]
        return self.samples

    def window(self, seconds):
        self.process.send_signal(signal.SIGCONT)
        self.edge()
        first, cpu, start = self.edge(), cpu_seconds(self.process.pid)[0], time.monotonic()
        last = first
        while time.monotonic() - start < seconds:
            last = self.edge()
        n = last - first
        self.cost.append((cpu_seconds(self.process.pid)[0] - cpu) / n)
        self.wall.append((time.monotonic() - start) / n)
        self.process.send_signal(signal.SIGSTOP)

    def end(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def planned(env, place, batch, memory, *recomputes):
    """Rows of `bstune mem` for ResNet-50."""
    sets = [x for k, v in {**RESNET50, "devices.memory": memory}.items() for x in ("--set", f"{k}={v}")]
    out = subprocess.run([BSTUNE, "mem", "resnet50-256", "--json", "--batch", str(batch), "--recompute", ",".join(recomputes), *sets],
                         env=env, cwd=place, check=True, capture_output=True, text=True).stdout
    return json.loads(out)["planned"]


def activations(row):
    """What is kept for the backward half, and what is there a second time when most is."""
    return row["activations"] + row["recomputation"]


def cases_split(env, place):
    return "quickstart", {"none": {"noise_scale": "none"}, "split": {"noise_scale": "split"}}, 2


def cases_recompute(env, place):
    batch = RESNET50["global_batch_size"]
    none, every = planned(env, place, batch, "8GiB", "none", "every:1")
    half = none["total"] - none["activations"] // 2
    auto, = planned(env, place, batch, half, "auto")
    for row, label in ((none, "none"), (auto, "auto half"), (every, "every 1")):
        print(f"{label:10} activations {activations(row) / 2**20:7.1f} MiB, {100 - 100 * activations(row) / activations(none):4.1f} % "
              f"less (want 50); work {100 * (row['recompute_work'] or 0):+.1f} % by the plan", flush=True)
    return "resnet50-256", {"none": {**RESNET50, "recompute": "none"},
                            "auto half": {**RESNET50, "recompute": "auto", "devices.memory": half},
                            "every 1": {**RESNET50, "recompute": "{every: 1}"}}, 35


def main():
    p = argparse.ArgumentParser()
    p.add_argument("what", choices=("split", "recompute"))
    p.add_argument("--turns", type=int, help="windows of each; split: 70, recompute: 14")
    p.add_argument("--seconds", type=float, help="of a window, at least; split: 1, recompute: 2")
    p.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for every run")
    args = p.parse_args()
    split = args.what == "split"
    turns, seconds = args.turns or (70 if split else 14), args.seconds or (1 if split else 2)
    place = tempfile.mkdtemp(prefix="bst-paired-")
    env = dict(os.environ, BSTUNE_SOCKET_DIR=f"{place}/s", BSTUNE_CONFIG="")
    preset, cases, most = (cases_split if split else cases_recompute)(env, place)
    more = dict(s.split("=", 1) for s in args.set)
    runs = []
    try:
        for label, settings in cases.items():
            runs.append(Contestant(label, place, env, preset, {**settings, **more}))
        orders = list(itertools.permutations(runs))
        for turn in range(turns):
            for run in orders[turn % len(orders)]:
                run.window(seconds)
    finally:
        for run in runs:
            run.end()
        shutil.rmtree(place, ignore_errors=True)
    base = runs[0]
    for run in runs:
        line = f"{run.label:10} {1e3 * statistics.median(run.cost):9.3f} ms of CPU a sample, {1e3 * statistics.median(run.wall):9.3f} ms"
        if run is not base:
            for word, mine, its in (("CPU", run.cost, base.cost), ("time", run.wall, base.wall)):
                line += "; {} ×{:.4f} (95 % {:.4f} to {:.4f})".format(word, *interval(its, mine))
            line += f"; {turns} turns (want at most ×{1 + most / 100:g})"
        print(line)


if __name__ == "__main__":
    main()
