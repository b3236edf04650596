#!/usr/bin/env python3
"""Random changes, each taken back by `undo --rewind`: nothing of them may be left in the run, bit for bit."""
import hashlib
import json
import random

from bst import Client, Place, check, main, until

CHANGES = 100
# More updates than pass between the changes; those under a change are taken back with it. Where more have passed
# than there are for so many changes (this process waited for its turn), the next one is made in a pause.
PACE = 5
SETTINGS = {"max_epochs": 36, "eval_interval": "4ep", "checkpoint_interval": "never"}


def change(rng):
    return rng.choice([
        lambda: f"batch ={rng.randrange(4, 120)}",
        lambda: rng.choice(["batch +20%", "batch -20%", "batch x2"]),
        lambda: f"lr x{rng.choice(['0.5', '0.9', '1.7', '3'])}",
        lambda: f"lr ={rng.uniform(0.001, 0.5):.4f}",
        lambda: f"warmup {rng.choice(['+1ep', '-10st', '=200st', '=0st'])}",
        lambda: f"decay {rng.choice(['cosine', 'linear', 'constant', 'linear 0.1'])}",
        lambda: f"momentum ={rng.choice(['0', '0.5', '0.95'])}",
        lambda: f"weight-decay ={rng.choice(['0', '0.001', '0.05'])}",
        lambda: f"accumulate ={rng.randrange(1, 5)}",
        lambda: f"clip ={rng.choice(['0.1', '1', 'off'])}",
        lambda: f"label-smoothing ={rng.choice(['0', '0.2'])}",
        lambda: f"preset {rng.choice(['resnet50-256', 'accumulate8-1024', 'finetune-last', 'rtx3090-128'])}",
    ])()


class Steering:
    """A client that gives commands and waits for what they came to."""

    def __init__(self, run):
        self.run, self.client, self.id = run, Client(run, "ctl"), 0

    def give(self, text):
        self.id += 1
        return self.client.ask({"op": "command", "id": self.id, "text": text}, "command")

    def seen(self):
        """Updates done, by the trainer's own word."""
        return self.client.ask({"op": "status", "id": 0}, "status")["status"]["update"]


def a_hundred_changes(r, seed):
    rng, s = random.Random(seed), Steering(r)
    kinds, updates_under = {}, 0
    done, paused = 0, False
    while done < CHANGES:
        check(r.process.poll() is None, f"seed {seed}: the run was over after {done} changes: {r.said()}")
        text = change(rng)
        reply = s.give(text)
        if reply["outcome"] != "applied":  # that decay already, or no warm-up left to change
            check(reply["outcome"] in ("refused", "done"), f"seed {seed}: {text}: {reply}")
            continue
        if paused:
            check(s.give("resume")["outcome"] == "done", f"seed {seed}: {text}: no resume")
        # Some are taken back after the update that read them back, some after more.
        for _ in range(rng.choice((0, 0, 1, 3))):
            n = s.seen()
            until(lambda: s.seen() > n, "an update under the change")
            updates_under += 1
        # The settings alone first, some of the time.
        if rng.random() < 0.2:
            back = s.give("undo")
            check(back["outcome"] == "applied", f"seed {seed}: {text}, undo: {back}")
        paused = reply["effective_update"] > (done + 2) * PACE
        if paused:
            check(s.give("pause")["outcome"] == "done", f"seed {seed}: {text}: no pause")
        back = s.give("undo --rewind")
        check(back["outcome"] == "applied" and back["effective_update"] == reply["effective_update"],
              f"seed {seed}: {text} at {reply['effective_update']}: {back}")
        kinds[text.split()[0]] = kinds.get(text.split()[0], 0) + 1
        done += 1
    if paused:
        check(s.give("resume")["outcome"] == "done", f"seed {seed}: no resume")
    s.client.close()
    check(len(kinds) >= 8 and updates_under > 20, f"seed {seed}: too tame: {kinds}, {updates_under}")


def last_checkpoint(r):
    newest = max(r.dir.glob("checkpoints/*-update-*"), key=lambda d: int(d.name.split("-")[0]))
    state = json.loads((newest / "state.json").read_text())
    for key in ("journal_seq", "metrics_bytes"):  # of files: the journal has the changes, lines their times
        del state[key]
    del state["progress"]["elapsed"]
    tensors = {f: hashlib.sha256((newest / f).read_bytes()).hexdigest()
               for f in ("weights.safetensors", "optimizer.safetensors")}
    return state, tensors


def leaves_no_trace(devices, seed):
    with Place() as p:
        settings = {**SETTINGS, "devices__count": devices}
        whole = p.start("whole", **settings).end()
        r = p.start("changed", **settings)
        r.wait_update(2)
        a_hundred_changes(r, seed)
        r.end()
        state, tensors = last_checkpoint(r)
        want_state, want_tensors = last_checkpoint(whole)
        # Every update's loss, rate, norm, batch and position, so the order of the samples too.
        check(r.series() == whole.series(), f"seed {seed}: the series differ")
        check([(m["samples"], m["loss"], m["accuracy_top1"]) for m in r.metrics("eval")] ==
              [(m["samples"], m["loss"], m["accuracy_top1"]) for m in whole.metrics("eval")], f"seed {seed}: evaluations")
        check(tensors == want_tensors, f"seed {seed}: weights, statistics or momenta differ")
        check(state == want_state, f"seed {seed}: {state} is not {want_state}")


def on_one_device():
    leaves_no_trace(1, 1)


def on_two_devices():
    leaves_no_trace(2, 2)


main(on_one_device, on_two_devices)
