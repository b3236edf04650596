#!/usr/bin/env python3
"""The advisor on real runs: what it says, and what --autopilot does with it."""
from bst import Place, check, main, until

# A rate at which hardly anything is learnt.
COLD = {"max_epochs": 4000, "data__train_count": 640, "learning_rate": 1e-6, "lr_scheduler": "constant", "warmup_epochs": 0.5,
        "checkpoint_interval": "never", "eval_interval": "never"}


def applied(run, source):
    return [e for e in run.journal() if e["source"].split()[0] == source and e["outcome"] == "applied"]


def advice_is_given_and_nothing_done():
    with Place() as p:
        r = p.start("r", **COLD)
        until(lambda: r.metrics("advice"), "some advice")
        a = r.metrics("advice")[0]
        check(a["code"].startswith("BST-") and a["text"] and a["statistic"] is not None, f"{a}")
        check(r.status()["advice"][-1]["code"] == a["code"], f"{r.status()['advice']}")
        r.wait_update(r.metrics()[-1]["update"] + 20)
        check(r.journal() == [], f"{r.journal()}")
        r.send(15)
        r.end(75)


def what_is_over_is_not_proposed():
    """A longer warm-up is advised while it lasts; behind it the remark stays, and nothing is armed by it."""
    with Place() as p:
        r = p.start("r", **COLD)
        until(lambda: [m for m in r.metrics("advice") if m["code"] == "BST-807"], "the advice on the warm-up")
        check([m["change"] for m in r.metrics("advice") if m["code"] == "BST-807"] == ["warmup =5%"], f"{r.metrics('advice')}")
        over = lambda: [m for m in r.metrics() if m["epoch"] > 0.6]
        until(over, "the warm-up's end")
        r.wait_update(r.metrics()[-1]["update"] + 20)
        check([a["change"] for a in r.status()["advice"] if a["code"] == "BST-807"] in ([""], [None]), f"{r.status()['advice']}")
        r.send(15)
        r.end(75)


def none_is_none():
    with Place() as p:
        r = p.start("r", "--advise", "off", **COLD)
        r.wait_update(400)
        check(not r.metrics("advice") and not r.metrics("advice_log"), "advice though it is off")
        r.send(15)
        r.end(75)


def a_remark_that_is_advice_is_said_once():
    """Norms above their band are remarked on, and are what a smaller rate is advised for."""
    high = {"max_epochs": 4000, "grad_norm_band": "[1e-6, 1e-5]", "checkpoint_interval": "never", "eval_interval": "never"}
    for how, said, silent in (("on", "advice", "note"), ("log", "note", "advice"), ("off", "note", "advice")):
        with Place() as p:
            r = p.start("r", "--advise", how, **high)
            mine = lambda kind: [m for m in r.metrics(kind) if m["code"] == "BST-106"]
            until(lambda: mine(said), f"the remark under --advise {how}")
            r.wait_update(r.metrics()[-1]["update"] + 30)
            check(len(mine(said)) == 1 and not mine(silent), f"{how}: {mine('note')} {mine('advice')}")
            check(bool(mine("advice_log")) == (how == "log"), f"{how}: {mine('advice_log')}")
            r.send(15)
            r.end(75)


def autopilot_acts_and_gives_way():
    with Place() as p:
        r = p.start("r", "--autopilot", **COLD)
        rises = lambda: [e for e in applied(r, "autopilot") if e["command"].startswith("lr ")]
        until(rises, "autopilot raises the rate")
        rc, reply = r.ctl("undo")
        check(rc == 0 and any(c["key"] == "learning_rate" for c in reply["changes"]), f"{reply}")
        undone = r.journal()[-1]["seq"]
        until(lambda: any(e["outcome"] == "refused" and "took such a change back" in e["text"] for e in r.journal()),
              "the refusal of its next")
        check(not [e for e in rises() if e["seq"] > undone], f"made again: {rises()}")
        r.send(15)
        r.end(75)


def of_two_the_worse_comes_first():
    """An unscaled rate and a warm-up too short, both known at once."""
    with Place() as p:
        r = p.start("r", "--autopilot", **{**COLD, "global_batch_size": 64, "lr_scaling": "none", "lr_base_batch_size": 4})
        until(lambda: applied(r, "autopilot"), "a change by autopilot")
        codes = [a["code"] for a in r.metrics("advice")][:2]
        check(codes == ["BST-206", "BST-807"], f"{codes}")
        check(applied(r, "autopilot")[0]["command"] == "lr *4", f"{r.journal()}")
        r.send(15)
        r.end(75)


def autopilot_does_not_shorten_a_warm_up():
    with Place() as p:
        r = p.start("r", "--autopilot", **{**COLD, "warmup_epochs": 0.6 * COLD["max_epochs"]})
        until(lambda: r.metrics("advice"), "advice")
        a = r.metrics("advice")[0]
        check(a["code"] == "BST-807" and a["change"] == "warmup =10%", f"{a}")
        r.wait_update(a["update"] + 20)
        check(not [e for e in r.journal() if e["source"] == "autopilot" and e["command"].startswith("warmup")], f"{r.journal()}")
        r.send(15)
        r.end(75)


if __name__ == "__main__":
    main(advice_is_given_and_nothing_done, what_is_over_is_not_proposed, none_is_none, a_remark_that_is_advice_is_said_once,
         autopilot_acts_and_gives_way, of_two_the_worse_comes_first, autopilot_does_not_shorten_a_warm_up)
