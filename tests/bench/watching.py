#!/usr/bin/env python3
"""What watching costs: CPU seconds a sample of the trainer with 0, 1 and 3 consoles attached, in alternating windows
of one run; bytes a second that an idle console writes at 80x24; seconds from start to the first update.

usage: watching.py [--windows 30] [--seconds 6] [--set KEY=VALUE]...   (BSTUNE names the binary)

The trainer's CPU time is that of all its threads (/proc/PID/task/*/schedstat), so the consoles' own time is not in it; samples
are counted between the ends of whole updates. Windows with 0, 1 and 3 consoles follow each other, in an order that changes
from turn to turn, so that a drift of the machine falls on all alike. Two figures come of it: the ratio of the whole process's
time, with the 95 % interval of the mean of its turns, which has all the noise of the machine; and the time of the control
thread alone, which is what answers consoles, as a share of the whole."""
import argparse
import fcntl
import itertools
import json
import math
import os
import pathlib
import pty
import select
import shutil
import statistics
import struct
import subprocess
import tempfile
import termios
import threading
import time

BSTUNE = os.path.abspath(os.environ.get("BSTUNE", "build/bstune"))


class Console:
    """`bstune attach` on a terminal of 80x24 whose output is counted and thrown away."""

    def __init__(self, run_dir, env):
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.process = subprocess.Popen([BSTUNE, "attach", run_dir], stdin=slave, stdout=slave, stderr=slave,
                                        env=env, start_new_session=True)
        os.close(slave)
        self.master, self.bytes, self.stop = master, 0, False
        self.thread = threading.Thread(target=self.drain)
        self.thread.start()

    def drain(self):
        while not self.stop:
            ready, _, _ = select.select([self.master], [], [], 0.1)
            if ready:
                try:
                    self.bytes += len(os.read(self.master, 65536))
                except OSError:
                    return

    def leave(self):
        os.write(self.master, b"q")
        self.process.wait(timeout=20)
        self.stop = True
        self.thread.join()
        os.close(self.master)


def cpu_seconds(pid):
    """Of the whole process, and of its control thread."""
    whole = control = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        seconds = int((task / "schedstat").read_text().split()[0]) * 1e-9
        whole += seconds
        if (task / "comm").read_text().strip() == "bst-control":
            control += seconds
    return whole, control


def updates(run_dir):
    data = (pathlib.Path(run_dir) / "metrics.jsonl").read_bytes()
    lines = data.split(b"\n")[:-1]
    return [m for m in map(json.loads, lines[-3:]) if m["type"] == "update"]


def edge(run_dir, pid):
    """Waits for an update to end: its samples and the CPU time so far."""
    last = updates(run_dir)[-1]["samples"]
    while True:
        got = updates(run_dir)
        if got and got[-1]["samples"] != last:
            return got[-1]["samples"], cpu_seconds(pid)
        time.sleep(0.002)


def window(run_dir, pid, env, n, seconds):
    """CPU seconds a sample, the control thread's share of them, bytes a second of a console."""
    consoles = [Console(run_dir, env) for _ in range(n)]
    time.sleep(1.5)  # the consoles read the history once; that is arriving, not watching
    s0, (c0, t0) = edge(run_dir, pid)
    wrote = sum(c.bytes for c in consoles)
    start = time.monotonic()
    time.sleep(seconds)
    s1, (c1, t1) = edge(run_dir, pid)
    rate = (sum(c.bytes for c in consoles) - wrote) / max(n, 1) / (time.monotonic() - start)
    for c in consoles:
        c.leave()
    return (c1 - c0) / (s1 - s0), (t1 - t0) / (c1 - c0), rate


def interval(base, other):
    """Ratio and its 95 % interval from the turns' own ratios, by their logarithms."""
    logs = [math.log(o / b) for b, o in zip(base, other)]
    mean = statistics.fmean(logs)
    half = 1.96 * statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.inf
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def first_update(place, env, tries=5):
    took = []
    for i in range(tries):
        run_dir = f"{place}/start{i}"
        start = time.monotonic()
        p = subprocess.Popen([BSTUNE, "run", "quickstart", "--headless", "--run-dir", run_dir, "--set", "max_steps=2"],
                             env=env, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        metrics = pathlib.Path(run_dir) / "metrics.jsonl"
        while not (metrics.exists() and metrics.stat().st_size):
            time.sleep(0.002)
            if p.poll() is not None:
                break
        took.append(time.monotonic() - start)
        p.wait()
    return took


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--windows", type=int, default=30)
    p.add_argument("--seconds", type=float, default=6)
    p.add_argument("--set", action="append", default=[])
    args = p.parse_args()
    place = tempfile.mkdtemp(prefix="bst-watching-")
    env = dict(os.environ, BSTUNE_SOCKET_DIR=f"{place}/s", TERM="xterm-256color", LANG="C.UTF-8")
    run_dir = f"{place}/run"
    took = first_update(place, env)
    print(f"start to first update of quickstart: median {statistics.median(took):.2f} s "
          f"({min(took):.2f} to {max(took):.2f}, {len(took)} starts)", flush=True)
    settings = [x for s in ["max_epochs=1000", "eval_interval=never", "checkpoint_interval=never", *args.set]
                for x in ("--set", s)]
    trainer = subprocess.Popen([BSTUNE, "run", "quickstart", "--headless", "--run-dir", run_dir, *settings], env=env,
                               cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not (os.path.exists(f"{run_dir}/metrics.jsonl") and updates(run_dir)):
            time.sleep(0.05)
        cost, control, idle = {0: [], 1: [], 3: []}, {0: [], 1: [], 3: []}, []
        orders = list(itertools.permutations(cost))
        for turn in range(args.windows):
            for n in orders[turn % len(orders)]:
                c, share, rate = window(run_dir, trainer.pid, env, n, args.seconds)
                cost[n].append(c)
                control[n].append(share)
                if n == 1:
                    idle.append(rate)
        for n, got in cost.items():
            line = f"{n} consoles: {1e6 * statistics.median(got):.1f} µs of CPU a sample"
            if n:
                line += ", ×{:.4f} of none (95 % {:.4f} to {:.4f}, {} windows)".format(*interval(cost[0], got), len(got))
            print(f"{line}; the control thread {100 * statistics.median(control[n]):.3f} % (most {100 * max(control[n]):.3f})")
        print(f"a console at 80x24 that nobody touches writes {statistics.median(idle):.0f} bytes/s "
              f"(most {max(idle):.0f})")
    finally:
        trainer.terminate()
        trainer.wait()
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
