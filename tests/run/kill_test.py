#!/usr/bin/env python3
"""kill -9 at random moments, resume, and compare with the unbroken run: nothing may differ, and no change
that was acknowledged may be lost. A short version; soak_kill.py is the long one.

    kill_test.py [--any N] [--save N] [--change N] [--seed S]
"""
import argparse
import os
import random
import time

from bst import Client, Fail, Place, check, main, signal, until

ARGS = argparse.ArgumentParser()
for kind, n in (("any", 6), ("save", 4), ("change", 4)):
    ARGS.add_argument(f"--{kind}", type=int, default=n)
ARGS.add_argument("--seed", type=int, default=None)

SETTINGS = {"max_epochs": 8, "checkpoint_interval": "7st"}


def finish(p, name):
    return p.start(name, resume=True, **SETTINGS).end()


def compare(whole, r, what):
    check(r.weights() == whole.weights(), f"{what}: weights differ from the unbroken run's")
    check(r.series() == whole.series(), f"{what}: metrics differ from the unbroken run's")


def kill_at_any_moment(p, whole, rng, i, length):
    r = p.start(f"any{i}", **SETTINGS)
    after = rng.uniform(0, length)
    time.sleep(after)
    r.send(signal.SIGKILL)
    r.process.wait()
    compare(whole, finish(p, r.name), f"killed after {after:.3f} s")


def saving(r):
    return list(r.dir.glob("checkpoints/*.tmp-*"))


def kill_inside_a_save(p, whole, rng, i):
    """The folder of an unfinished checkpoint is there when the signal is sent, and still after it."""
    for attempt in range(200):
        r = p.start(f"save{i}-{attempt}", **{**SETTINGS, "checkpoint_interval": "2st"})
        pause = rng.uniform(0, 0.004)
        wait = rng.randrange(1, 12)
        until(lambda: r.process.poll() is not None or len(r.metrics()) >= wait, "updates")
        until(lambda: r.process.poll() is not None or saving(r), "a save")
        time.sleep(pause)
        r.send(signal.SIGKILL)
        r.process.wait()
        inside = saving(r)
        compare(whole, finish(p, r.name), "killed in a save")
        check(not saving(r), "what a killed save left behind is still there")
        if inside:
            return
    raise Fail("no kill fell into a save")


def kill_inside_a_change(p, rng, i):
    """Sent a command and killed before, while or just after it is answered."""
    for attempt in range(200):
        r = p.start(f"change{i}-{attempt}", **SETTINGS)
        r.wait_update(rng.randrange(1, 30))
        c = Client(r, "ctl")
        c.send({"op": "command", "id": 1, "text": "batch +20%"})
        c.s.settimeout(rng.uniform(0.0005, 0.03))
        try:
            reply = c.next()
            while reply and reply.get("re") != "command":
                reply = c.next()
        except TimeoutError:
            reply = None
        r.send(signal.SIGKILL)
        r.process.wait()
        c.s.settimeout(5)
        try:
            while reply is None or reply.get("re") != "command":
                reply = c.next()
                if reply is None:
                    break
        except OSError:
            pass
        acknowledged = reply is not None and reply["outcome"] == "applied"
        applied = [e for e in r.journal() if e["outcome"] == "applied"]
        check(not acknowledged or len(applied) == 1, "acknowledged, and not in the journal")
        r = finish(p, r.name)
        sizes = {m["update"]: m["global_batch_size"] for m in r.metrics()}
        if applied:
            n = applied[0]["update"]
            check(all(b == (32 if u < n else 38) for u, b in sizes.items() if u < max(sizes)),
                  f"journalled at update {n}, and not so in the metrics")
        else:
            check(set(sizes.values()) <= {32}, "a change that is in no journal was kept")
        check([m["update"] for m in r.metrics()] == list(range(1, len(sizes) + 1)), "an update twice or never")
        check(r.metrics()[-1]["samples"] == SETTINGS["max_epochs"] * 640, "samples lost or repeated")
        if not acknowledged:
            return
    raise Fail("every command was answered before the kill")


def run(args):
    seed = args.seed if args.seed is not None else int.from_bytes(os.urandom(4), "little")
    rng = random.Random(seed)
    print(f"seed {seed}", flush=True)
    with Place() as p:
        start = time.monotonic()
        whole = p.start("whole", **SETTINGS).end()
        length = time.monotonic() - start
        for i in range(args.any):
            kill_at_any_moment(p, whole, rng, i, length)
        for i in range(args.save):
            kill_inside_a_save(p, whole, rng, i)
        for i in range(args.change):
            kill_inside_a_change(p, rng, i)


def kills():
    run(ARGS.parse_args([]))


if __name__ == "__main__":
    import sys
    if len(sys.argv) > 1:
        chosen = ARGS.parse_args()
        sys.argv[1:] = []
        main(lambda: run(chosen))
    main(kills)
