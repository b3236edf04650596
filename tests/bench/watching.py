#!/usr/bin/env python3
"""What watching costs: CPU seconds a sample of the trainer with 0, 1 and 3 consoles attached, in alternating windows
of one run; bytes a second that an idle console writes at 80x24; seconds from start to the first update.

usage: watching.py [--windows 30] [--seconds 6] [--set KEY=VALUE]...   (BSTUNE names the binary)

The trainer's CPU time is its own and its threads' (utime + stime of /proc/PID/stat), so the consoles' own time is not in it;
samples are counted between the ends of whole updates. Windows with 0, 1 and 3 consoles follow each other in turn, so
that a drift of the machine falls on all alike; figures are medians, and the ratios come with a bootstrap interval."""
import argparse
import fcntl
import json
import os
import pathlib
import pty
import random
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
TICK = os.sysconf("SC_CLK_TCK")


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
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


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
    consoles = [Console(run_dir, env) for _ in range(n)]
    time.sleep(1.5)  # the consoles read the history once; that is arriving, not watching
    s0, c0 = edge(run_dir, pid)
    wrote = sum(c.bytes for c in consoles)
    start = time.monotonic()
    time.sleep(seconds)
    s1, c1 = edge(run_dir, pid)
    rate = (sum(c.bytes for c in consoles) - wrote) / max(n, 1) / (time.monotonic() - start)
    for c in consoles:
        c.leave()
    return (c1 - c0) / (s1 - s0), rate


def interval(base, other, rounds=2000):
    """95 % bootstrap interval of the ratio of medians, windows paired by turn."""
    rng = random.Random(1)
    pairs = list(zip(base, other))
    got = []
    for _ in range(rounds):
        pick = [rng.choice(pairs) for _ in pairs]
        got.append(statistics.median(p[1] for p in pick) / statistics.median(p[0] for p in pick))
    got.sort()
    return got[int(0.025 * rounds)], got[int(0.975 * rounds)]


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
        cost, idle = {0: [], 1: [], 3: []}, []
        for _ in range(args.windows):
            for n in cost:
                c, rate = window(run_dir, trainer.pid, env, n, args.seconds)
                cost[n].append(c)
                if n == 1:
                    idle.append(rate)
        for n, got in cost.items():
            line = f"{n} consoles: {1e6 * statistics.median(got):.1f} µs of CPU a sample"
            if n:
                low, high = interval(cost[0], got)
                ratio = statistics.median(got) / statistics.median(cost[0])
                line += f", ×{ratio:.4f} of none (95 % {low:.4f} to {high:.4f}, {len(got)} windows)"
            print(line)
        print(f"a console at 80x24 that nobody touches writes {statistics.median(idle):.0f} bytes/s "
              f"(most {max(idle):.0f})")
    finally:
        trainer.terminate()
        trainer.wait()
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
