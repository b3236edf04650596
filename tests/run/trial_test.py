#!/usr/bin/env python3
"""`bstune trial`: a change and its absence tried from one state; the run is as if nothing had been."""
import re
import subprocess

from bst import BSTUNE, Client, Place, check, main, until

# Rates at which this net learns little by little, so that more of it is better and none is worse.
SLOW = {"max_epochs": 40, "data__train_count": 2560, "learning_rate": 0.02, "warmup_epochs": 0.1, "lr_scheduler": "constant",
        "checkpoint_interval": "never", "eval_interval": "never"}


def trial(p, run, *command, updates=96):
    rc, out, err = p.cli("trial", run.dir, *command, "--updates", updates)
    return rc, out + err


def better_and_worse_are_told():
    with Place() as p:
        r = p.start("r", **SLOW)
        r.wait_update(20)
        # Where the run is when it hears of them is chance; so the differences are far from what is in doubt. Which of
        # the two a tiny one is, is in doubt.
        for command, want in ((("lr", "x8"), "the change is better"), (("lr", "*0.02"), "the change is worse"),
                              (("weight-decay", "=0.0001001"), "no difference that ")):
            rc, said = trial(p, r, *command, updates=480)
            check(rc == 0 and want in said and "BST-319" in said, f"{command}: {rc} {said}")
            m = re.search(r"(\d+) updates in .* without, (\d+) in .* with, over the same (\d+) samples", said)
            check(m and m.groups() == ("480", "480", "15360"), said)
        rc, said = trial(p, r, "batch", "x2")
        m = re.search(r"(\d+) updates in .* without, (\d+) in", said)
        check(rc == 0 and m and m.groups() == ("96", "48"), said)
        # As the README has it: no name where there is one run, the change in quotes.
        for operands in (["trial", "lr x1.1", "--updates", 96], ["ctl", "-n", "batch +20%"], ["ctl", "-n", r.dir, "batch +20%"]):
            rc, out, err = p.cli(*operands)
            check(rc == 0, f"{operands}: {out}{err}")
        r.send(15)
        r.end(75)


def the_run_is_as_if_nothing_had_been():
    some = {**SLOW, "max_epochs": 20}  # 1600 updates: the trials fit, wherever the run is when it hears of them
    with Place() as p:
        plain = p.start("plain", **some).end()
        tried = p.start("tried", **some)
        tried.wait_update(10)
        rc, said = trial(p, tried, "batch", "+20%", updates=60)
        check(rc == 0, said)
        tried.end()
        check(plain.series() == tried.series() and plain.weights() == tried.weights(), "the run has changed")
        check([e["command"] for e in tried.journal()] == ["trial 60 batch +20%"], f"{tried.journal()}")
        cut = p.start("cut", **some)
        cut.wait_update(10)
        c = Client(cut, "ctl")
        c.send({"op": "command", "id": 1, "text": "trial 800 lr *0.5", "dry": False})
        until(lambda: cut.status().get("phase") == "searching", "the trial has begun")
        rc, reply = cut.ctl("cancel")
        check(rc == 0, f"{reply}")
        o = c.wait("command")
        check(o["outcome"] == "dropped", f"{o}")
        c.close()
        cut.end()
        check(plain.series() == cut.series() and plain.weights() == cut.weights(), "cancelled, it has changed")
        killed = p.start("killed", **{**some, "checkpoint_interval": "100st"})
        killed.wait_update(150)
        c = Client(killed, "ctl")
        c.send({"op": "command", "id": 1, "text": "trial 800 lr *0.5", "dry": False})
        until(lambda: killed.status().get("phase") == "searching", "the trial has begun")
        killed.send(9)
        killed.process.wait()
        again = p.start("killed", resume=True, **{**some, "checkpoint_interval": "100st"}).end()
        check(plain.series() == again.series() and plain.weights() == again.weights(), "killed, it has changed")


def what_is_refused():
    with Place() as p:
        r = p.start("r", **{**SLOW, "max_epochs": 4000})
        r.wait_update(3)
        for command, updates, word in ((("lr", "x2"), 10, "from 48 to 100000"), (("lr", "quick"), 100, "quick"),
                                       (("undo",), 100, "nothing that can be tried"), (("stop",), 100, "nothing that"),
                                       (("batch", "=0"), 100, "batch"), (("batch", "=2560"), 100, "needs at least"),
                                       (("preset", "none-such"), 100, "none-such")):
            rc, said = trial(p, r, *command, updates=updates)
            check(rc != 0 and word in said, f"{command}: {rc} {said}")
            # A refusal is whoever asked's, the journal's and the log's; the status is of the run.
            s = r.status()
            check(not s["search"] and word not in str(s["note"]), f"{command}: the status has it still: {s['search']} {s['note']}")
        rc, said = trial(p, r, "batch", "=100000000", updates=100)
        check(rc == 1 and "refused BST-203: " in said and not r.status()["search"], f"{rc} {said}")
        check(f"trial 100 batch =100000000 ({r.journal()[-1]['source']}) refused BST-203: " in r.said(), r.said())
        rc, told = trial(p, r, "lr", "x1", updates=48)
        found = r.status()["search"]
        check(rc == 0 and "lr *1: " in found, f"{rc} {told} {found}")
        check(trial(p, r, "batch", "=2560", updates=48)[0] == 1 and r.status()["search"] == found, "what was found is forgotten")
        check(r.status()["phase"] == "training", "not training any more")
        r.send(15)
        r.end(75)
        rc, out, err = p.cli("trial", p.path / "nothing", "lr", "x2")
        check(rc == 4, f"{rc} {err}")


def searching(r, what):
    until(lambda: r.status().get("phase") == "searching", what)


def spawn(p, *args):
    """A verb on its own, and what it says."""
    said = open(p.path / "said", "w+b")
    process = subprocess.Popen([BSTUNE, *map(str, args)], env=p.env, cwd=p.path, stdin=subprocess.DEVNULL,
                               stdout=said, stderr=subprocess.STDOUT)
    return process, lambda: (p.path / "said").read_text()


def interrupted_it_is_cancelled():
    some = {**SLOW, "max_epochs": 20}
    with Place() as p:
        plain = p.start("plain", **some).end()
        for verb, sig in ((("trial",), 2), (("ctl", "lrfind", 1000), 15), (("ctl", "fit"), 2)):
            r = p.start(f"r{sig}{verb[-1]}", **some)
            r.wait_update(10)
            more = ("lr", "*0.5", "--updates", 800) if verb[0] == "trial" else ()
            process, said = spawn(p, *verb[:1], r.dir, *verb[1:], *more)
            searching(r, f"{verb} is on")
            if "lrfind" in verb:  # how far it is, in lines where no terminal is
                until(lambda: "\nlrfind: pass 1/1, update " in "\n" + said() and "\r" not in said(), "its progress")
            process.send_signal(sig)
            check(process.wait(timeout=60) == 1 and "BST-317" in said() and "the run is as it was" in said(), said())
            r.end()
            check(plain.series() == r.series() and plain.weights() == r.weights(), f"{verb} cancelled, it has changed")


def a_second_one_waits_and_says_so():
    """Others wait for the trial that is on, and say so; one that gives up leaves it alone."""
    with Place() as p:
        r = p.start("r", **{**SLOW, "max_epochs": 4000})
        r.wait_update(10)
        first = Client(r, "ctl")
        first.send({"op": "command", "id": 1, "text": "trial 20000 lr *0.5", "dry": False})
        searching(r, "the first trial is on")
        process, said = spawn(p, "ctl", "-n", r.dir, "batch", "+20%")
        until(lambda: "waits for the search that is on" in said(), "the proposal says that it waits")
        check(process.poll() is None, said())
        second, also = spawn(p, "trial", r.dir, "lr", "x2")
        until(lambda: "waits for the search" in also(), "the second trial says that it waits")
        second.send_signal(2)
        check(second.wait(timeout=60) == 1 and "given up before it began" in also(), also())
        check(r.status()["phase"] == "searching" and process.poll() is None, "the first one is over")
        check(r.ctl("cancel")[0] == 0 and first.wait("command")["outcome"] == "dropped", "not cancelled")
        check(process.wait(timeout=60) == 0, said())
        r.send(15)
        r.end(75)
        check("trial 200 lr x2" not in [e["command"] for e in r.journal() if e["outcome"] == "done"], "the second one was tried")


def what_a_client_left_behind_is_not_done():
    """`ctl` killed while it waited for a trial: nobody knows that its change would come."""
    with Place() as p:
        r = p.start("r", **{**SLOW, "max_epochs": 4000})
        r.wait_update(10)
        first = Client(r, "ctl")
        first.send({"op": "command", "id": 1, "text": "trial 20000 lr *0.5", "dry": False})
        searching(r, "the trial is on")
        process, said = spawn(p, "ctl", r.dir, "batch", "=64")
        until(lambda: "waits for the search" in said(), "ctl waits")
        process.kill()
        process.wait()
        # A console's command stands: whoever gave it may leave.
        console = Client(r, "console")
        console.send({"op": "command", "id": 1, "text": "clip =3", "dry": False})
        check(console.ask({"op": "status", "id": 2}, "status")["status"]["phase"] == "searching", "the trial is over")
        console.close()
        check(r.ctl("cancel")[0] == 0, "no cancel")
        first.close()
        until(lambda: {e["command"] for e in r.journal()} >= {"batch =64", "clip =3"}, "both are in the journal")
        outcome = {e["command"]: e["outcome"] for e in r.journal()}
        check(outcome["batch =64"] == "dropped" and outcome["clip =3"] == "applied", f"{outcome}")
        check({m["global_batch_size"] for m in r.metrics()} == {32}, "the batch was changed")
        r.send(15)
        r.end(75)


if __name__ == "__main__":
    main(better_and_worse_are_told, the_run_is_as_if_nothing_had_been, what_is_refused, interrupted_it_is_cancelled,
         a_second_one_waits_and_says_so, what_a_client_left_behind_is_not_done)
