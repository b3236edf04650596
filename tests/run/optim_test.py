#!/usr/bin/env python3
"""Runs under adamw, lamb and lars: live changes, an end and a resume, trial, rewind, and their memory."""
import json

from bst import Place, check, main, signal

RATES = {"adamw": 0.004, "lamb": 0.01, "lars": 2.0}
SOME = {"lr_scheduler": "constant", "warmup_epochs": 0, "weight_decay_all": "false", "lr_base_batch_size": 32,
        "eval_interval": "never", "max_epochs": 12}
CHANGES = ('[{at: 10st, command: "lr *0.5"}, {at: 20st, command: "weight-decay =0.02"}, '
           '{at: 30st, command: "clip =0.05"}, {at: 40st, command: "batch =128"}]')


def settings(name, **more):
    rule = "linear" if name == "lars" else "sqrt"
    return {**SOME, "optimizer": name, "learning_rate": RATES[name], "lr_scaling": rule, **more}


def changes_are_made_and_a_resume_goes_on():
    """The batch's change moves the rate by its root, or under lars with it; stopped anywhere, a resumed run ends the same."""
    with Place() as p:
        for name, rate in RATES.items():
            whole = p.start(name, **settings(name, changes=CHANGES)).end()
            done = [e for e in whole.journal() if e["outcome"] == "applied"]
            check([e["command"].split()[0] for e in done] == ["lr", "weight-decay", "clip", "batch"], f"{done}")
            times = 4 if name == "lars" else 2
            for update, want in ((10, 1), (11, 0.5), (40, 0.5), (41, 0.5 * times)):
                lr = whole.metrics()[update - 1]["learning_rate"]
                check(abs(lr / rate - want) < 1e-12, f"{name}: rate {lr} in update {update}, {rate} x {want} expected")
            clipped = {m["update"] for m in whole.metrics() if m.get("clipped")}
            check(clipped and min(clipped) > 30, f"{name}: clipped in {sorted(clipped)[:3]}…")
            parts = p.start(name + "-parts", **settings(name, changes=CHANGES))
            parts.wait_update(25)
            parts.send(signal.SIGTERM)
            parts.end(75)
            parts = p.start(name + "-parts", resume=True).end()
            check(whole.series() == parts.series(), f"{name}: resumed, it took another way")
            check(whole.weights() == parts.weights(), f"{name}: resumed, it has other weights")


def trial_and_rewind_leave_no_trace():
    """The means and the count of steps come back with the weights."""
    with Place() as p:
        long = settings("adamw", max_epochs=20)
        plain = p.start("plain", **long).end()
        tried = p.start("tried", **long)
        tried.wait_update(10)
        rc, out, err = p.cli("trial", tried.dir, "lr", "*0.5", "--updates", 48)
        check(rc == 0, out + err)
        rc, reply = tried.ctl("lr", "x3")
        check(rc == 0, f"{reply}")
        rc, reply = tried.ctl("undo", "--rewind")
        check(rc == 0, f"{reply}")
        tried.end()
        check(plain.weights() == tried.weights(), "a trial and a change taken back have left something")


def momentum_is_refused_where_there_is_none():
    with Place() as p:
        for name in ("adamw", "lars"):
            r = p.start(name, **settings(name, max_epochs=4000))
            r.wait_update(2)
            rc, reply = r.ctl("momentum", "=0.5")
            check(r.status()["optimizer"] == name, f"{r.status()}")
            refused = rc == 1 and "321" in json.dumps(reply) and "has no momentum" in json.dumps(reply)
            check(refused if name == "adamw" else rc == 0, f"{name}: {rc} {reply}")
            r.send(signal.SIGTERM)
            r.end(75)


def memory_shows_the_state():
    with Place() as p:
        for name, blocks in (("sgd", 1), ("adamw", 2), ("lamb", 2), ("lars", 1)):
            rc, out, err = p.cli("mem", "quickstart", "--json", "--set", f"optimizer={name}")
            check(rc == 0, err)
            for row in json.loads(out)["planned"]:
                check(row["optimizer"] == blocks * row["gradients"], f"{name}: {row}")


if __name__ == "__main__":
    main(changes_are_made_and_a_resume_goes_on, trial_and_rewind_leave_no_trace,
         momentum_is_refused_where_there_is_none, memory_shows_the_state)
