#!/usr/bin/env python3
"""SIGTERM in every phase: a checkpoint, exit 75, and --resume goes on bit for bit."""
import subprocess
import time

from bst import BSTUNE, Client, Place, check, main, signal, until


# So long that a signal comes before the end, however late it is seen that there is something to send it into.
LONGER = {"max_epochs": 12}


def unbroken(p, **settings):
    return p.start("whole", **settings).end()


def same_end(p, whole, broken):
    check(broken.weights() == whole.weights(), "weights differ from the unbroken run's")
    check(broken.series() == whole.series(), "metrics differ from the unbroken run's")
    evals = [(m["samples"], m["accuracy_top1"], m["loss"]) for m in broken.metrics("eval")]
    check(evals == [(m["samples"], m["accuracy_top1"], m["loss"]) for m in whole.metrics("eval")], "evaluations differ")


def term_resume(p, r, whole):
    r.send(signal.SIGTERM)
    r.end(75)
    check(r.status()["phase"] == "preempted", "the last phase")
    same_end(p, whole, p.start(r.name, resume=True).end())


def while_training():
    with Place() as p:
        whole = unbroken(p, **LONGER)
        for n in (1, 7, 40):
            r = p.start(f"t{n}", **LONGER)
            r.wait_update(n)
            term_resume(p, r, whole)


def while_starting():
    with Place() as p:
        whole = unbroken(p, **LONGER)
        r = p.start("s", **LONGER)
        until(lambda: (r.dir / "run.json").exists(), "run.json")
        term_resume(p, r, whole)


def while_evaluating():
    with Place() as p:
        long = {"data__eval_count": 12000, "max_epochs": 2}
        whole = unbroken(p, **long)
        r = p.start("e", **long)
        r.wait_phase("evaluating")
        start = time.monotonic()
        term_resume(p, r, whole)
        check(time.monotonic() - start < 100, "did not end soon")


def while_paused():
    with Place() as p:
        whole = unbroken(p, **LONGER)
        r = p.start("p", **LONGER)
        r.wait_update(5)
        rc, reply = r.ctl("pause")
        check(rc == 0 and r.status()["phase"] == "paused", f"not paused: {reply}")
        term_resume(p, r, whole)


def while_saving():
    """As many checkpoints as updates: the signal falls into a save sooner or later."""
    with Place() as p:
        whole = unbroken(p, checkpoint_interval="1st")
        r = p.start("c", checkpoint_interval="1st")
        until(lambda: list(r.dir.glob("checkpoints/*.tmp-*")), "a save in progress")
        term_resume(p, r, whole)


def while_a_change_is_pending():
    with Place() as p:
        whole = unbroken(p, **LONGER)
        r = p.start("w", **LONGER)
        r.wait_update(3)
        c = Client(r, "ctl")
        c.send({"op": "command", "id": 1, "text": "batch +20%"})
        r.send(signal.SIGTERM)
        reply = c.next()
        while reply is not None and reply.get("re") != "command":
            reply = c.next()
        # Closed without an answer: the signal came before the command had been read.
        reply = reply or {"outcome": "dropped"}
        r.end(75)
        after = p.start("w", resume=True).end()
        if reply["outcome"] == "applied":
            check(any(m["global_batch_size"] == 38 for m in after.metrics()), "an acknowledged change was lost")
        else:
            check(reply["outcome"] == "dropped", f"outcome {reply['outcome']}")
            same_end(p, whole, after)


def second_term_ends_at_once():
    with Place() as p:
        r = p.start("d", data__train_count=100000, data__image_size=96, global_batch_size=2048, model__width=16)
        until(lambda: (r.dir / "run.json").exists(), "run.json")
        r.send(signal.SIGTERM)
        time.sleep(0.6)
        r.send(signal.SIGTERM)
        rc = r.process.wait(timeout=60)
        # Where the first one was quicker, its own code stands.
        check(rc in (-signal.SIGTERM, 75), f"ended with {rc}")


def a_signal_that_comes_twice_is_one():
    """timeout(1) sends it to the process and then to its group."""
    with Place() as p:
        whole = unbroken(p, **LONGER)
        r = p.start("g", **LONGER)
        r.wait_update(3)
        r.send(signal.SIGTERM)
        time.sleep(0.01)
        r.send(signal.SIGTERM)
        rc = r.process.wait(timeout=60)
        check(rc == 75, f"ended with {rc}")
        same_end(p, whole, p.start("g", resume=True).end())


def hangup_is_ignored():
    with Place() as p:
        whole = unbroken(p, **LONGER)
        r = p.start("h", **LONGER)
        r.wait_update(3)
        for _ in range(5):
            r.send(signal.SIGHUP)
        same_end(p, whole, r.end())


# On the reference backend an update of this size takes minutes, in hundreds of instructions.
LONG_UPDATE = {"devices.backend": "ref", "model.name": "resnet20", "model.width": 32, "data.image_size": 48,
               "global_batch_size": 320, "micro_batch_size": 320, "eval_interval": "never"}


def within_a_micro_batch():
    """The update of one micro-batch is long: whoever asks is told so at once, and a signal does not wait for its end."""
    with Place() as p:
        r = p.start("m", **LONG_UPDATE)
        until(lambda: (r.status().get("update_age") or 0) > 2, "an update that takes long")
        rc, out, err = p.cli("status", r.dir)
        check(rc == 0 and "the update in flight has taken" in out, f"{rc} {out}{err}")
        asking = subprocess.Popen([BSTUNE, "ctl", str(r.dir), "batch", "-20%"], env=p.env, cwd=p.path, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, encoding="utf-8")
        line = asking.stderr.readline()
        check("queued; the update in flight has taken" in line, line)
        check(asking.poll() is None and not r.metrics(), "answered, or the update has ended")
        r.send(signal.SIGTERM)
        r.end(75)
        check(asking.wait(timeout=60) == 1 and "dropped" in asking.stderr.read(), "what became of the change is not said")
        s = r.status()
        check(s["phase"] == "preempted" and s["update"] == s["samples"] == 0 and not r.metrics(), f"{s}")
        check(s.get("update_age") is None, "an update goes on behind the end")


if __name__ == "__main__":
    main(while_training, while_starting, while_evaluating, while_paused, while_saving, while_a_change_is_pending,
         within_a_micro_batch, second_term_ends_at_once, a_signal_that_comes_twice_is_one, hangup_is_ignored)
