#!/usr/bin/env python3
"""Live changes as transactions: exact, read back, journalled, undone; or refused with nothing changed."""
import collections
import json
import os
import shutil
import time

from bst import Client, Place, check, main, until

LONG = {"max_epochs": 400, "eval_interval": "never", "checkpoint_interval": "never"}


def near(a, b):
    return abs(a - b) <= 1e-9 * abs(b)


def plus_twenty_percent_is_exact_and_immediate():
    with Place() as p:
        r = p.start("b", "--trace-samples", "trace", global_batch_size=256, max_epochs=40,
                    data__train_count=2560, checkpoint_interval="never")
        r.wait_update(3)
        rc, reply = r.ctl("batch", "+20%")
        check(rc == 0 and reply["outcome"] == "applied", f"{reply}")
        changes = {c["key"]: (c["old"], c["new"]) for c in reply["changes"]}
        check(changes["global_batch_size"] == (256, 307), f"{changes}")
        n, s = reply["effective_update"], reply["effective_samples"]
        e = r.journal()[0]
        check(e["seq"] == 1 and e["update"] == n and e["samples"] == s and e["command"] == "batch +20%"
              and e["outcome"] == "applied" and " pid " in e["source"] and e["source"].startswith("ctl "), f"{e}")
        r.wait_update(n + 3)
        by_number = {m["update"]: m for m in r.metrics()}
        check(by_number[n]["global_batch_size"] == 307 and by_number[n - 1]["global_batch_size"] == 256, "not in the next update")
        check(by_number[n]["samples"] - by_number[n - 1]["samples"] == 307, "another number of samples")
        check(near(changes["learning_rate"][1], changes["learning_rate"][0] * 307 / 256), "the rate did not follow")
        rc, reply = r.ctl("--", "batch", "-20%")
        check(rc == 0 and reply["changes"][0]["new"] == 246, f"307 less 20 % is 246 (245.6): {reply}")
        r.send(15)
        r.end(75)
        trace = [list(map(int, line.split())) for line in (p.path / "trace").read_text().splitlines()]
        seen = [i for t in trace for i in t[3:]]
        check(len(seen) == r.metrics()[-1]["samples"], "trace and metrics disagree")
        for epoch in range(len(seen) // 2560):
            part = seen[epoch * 2560:(epoch + 1) * 2560]
            check(max(collections.Counter(part).values()) == 1, f"an index twice in epoch {epoch}")


def presses_are_one_proposal():
    with Place() as p:
        r = p.start("k", **LONG, global_batch_size=256)
        r.wait_update(1)
        rc, reply = r.ctl("-n", "batch", "+20%^3")
        check(rc == 0 and reply["outcome"] == "proposed" and reply["changes"][0]["new"] == 442, f"{reply}")
        check(reply["schedule"]["curve"] and reply["memory"]["planned"] < reply["memory"]["limit"], f"{reply}")
        time.sleep(0.1)
        check(r.journal() == [] and r.metrics()[-1]["global_batch_size"] == 256, "a dry run changed something")


def memory_decides_to_the_byte():
    with Place() as p:
        r = p.start("m", **LONG, gradient_accumulation_steps=1)
        r.wait_update(1)
        _, reply = r.ctl("-n", "batch", "=96")
        need = int(reply["memory"]["planned"])
        r.ctl("stop")
        r.end()
        for name, limit, want in (("fits", need, 0), ("over", need - 1, 1)):
            r = p.start(name, **LONG, gradient_accumulation_steps=1, devices__memory=limit)
            r.wait_update(2)
            rc, reply = r.ctl("batch", "=96")
            check(rc == want, f"{name}: {reply}")
            n = r.metrics()[-1]["update"]
            r.wait_update(n + 2)
            last = r.metrics()[-1]
            if want:
                check(reply["outcome"] == "refused" and reply["code"] == "BST-201" and
                      str(need) in reply["text"] and str(limit) in reply["text"], f"{reply}")
                check(last["global_batch_size"] == 32 and r.journal()[0]["outcome"] == "refused", "something changed")
            else:
                check(last["global_batch_size"] == 96, f"{last}")
            # Without a fixed accumulation the same batch is reached in smaller parts.
            rc, reply = r.ctl("accumulate", "auto")
            check(rc == 0, f"{reply}")
            rc, reply = r.ctl("batch", "=192")
            check(rc == 0, f"{reply}")
            last = r.metrics()[-1]
            r.wait_update(last["update"] + 1)
            last = r.metrics()[-1]
            check(last["global_batch_size"] == 192 and last["gradient_accumulation_steps"] >= 2, f"{last}")
            r.ctl("stop")
            r.end()


def undo_and_redo():
    with Place() as p:
        r = p.start("u", **LONG)
        r.wait_update(2)
        check(r.ctl("undo")[1]["code"] == "BST-310", "there was something to undo")
        for command in ("batch +20%", "lr x0.5", "clip =1.5"):
            rc, reply = r.ctl(*command.split())
            check(rc == 0, f"{reply}")
        for key, value in (("max_grad_norm", "off"), ("learning_rate", None), ("global_batch_size", 32)):
            rc, reply = r.ctl("undo")
            changed = {c["key"]: c["new"] for c in reply["changes"]}
            check(rc == 0 and key in changed and value in (None, changed[key]), f"{key}: {reply}")
        rc, reply = r.ctl("redo")
        check(rc == 0 and reply["changes"][0]["new"] == 38, f"{reply}")
        n = reply["effective_update"]
        r.wait_update(n)
        check({m["update"]: m for m in r.metrics()}[n]["global_batch_size"] == 38, "redo had no effect")


def rewind_brings_the_weights_back():
    """What follows a rewind is what would have followed without the change, bit for bit."""
    with Place() as p:
        whole = p.start("whole", max_epochs=20).end()
        r = p.start("r", max_epochs=20)
        r.wait_update(10)
        rc, reply = r.ctl("lr", "x3")
        n = reply["effective_update"]
        r.wait_update(n + 12)
        rc, back = r.ctl("undo", "--rewind")
        check(rc == 0 and back["effective_update"] == n, f"{back}")
        r.wait_update(n + 2)
        r.send(15)
        r.end(75)
        p.start("r", resume=True).end()
        check(r.weights() == whole.weights() and r.series() == whole.series(), "a trace of the change is left")


def an_undo_says_that_the_weights_are_bad():
    """A far too large rate, undone: the weights stay as it left them, until --rewind brings them back as well."""
    with Place() as p:
        whole = p.start("whole", max_epochs=20).end()
        r = p.start("r", max_epochs=20)
        r.wait_update(10)
        # One connection for what must follow soon: the run is short, and goes on.
        c = Client(r, "ctl")
        reply = c.ask({"op": "command", "id": 1, "text": "lr =100"}, "command")
        n = reply["effective_update"]
        check(reply["outcome"] == "applied", f"{reply}")
        until(lambda: c.ask({"op": "status", "id": 2}, "status")["status"]["update"] >= n + 2, "updates at that rate")
        check(c.ask({"op": "command", "id": 3, "text": "pause"}, "command")["outcome"] == "done", "no pause")
        c.close()
        rc, proposed = r.ctl("-n", "undo")
        rc, undone = r.ctl("undo")
        for said in (proposed, undone):
            check("the loss is " in said["text"] and "`undo --rewind`" in said["text"], f"{said}")
        check(undone["outcome"] == "applied", f"{undone}")
        check("effective on resume" in undone["text"], f"{undone}")
        rc, back = r.ctl("undo", "--rewind")
        check(rc == 0 and back["effective_update"] == n, f"{back}")
        rc, again = r.ctl("-n", "redo")
        check(rc == 0 and [c["new"] for c in again["changes"] if c["key"] == "learning_rate"] == [100], f"{again}")
        check(r.ctl("resume")[0] == 0, "no resume")
        check(r.process.wait(timeout=120) == 0, r.said())
        check(r.weights() == whole.weights() and r.series() == whole.series(), "a trace of the change is left")


def a_harmless_undo_says_nothing_of_it():
    with Place() as p:
        r = p.start("r", **LONG)
        r.wait_update(60)
        check(r.ctl("lr", "*0.5")[0] == 0, "no change")
        r.wait_update(r.metrics()[-1]["update"] + 20)
        rc, reply = r.ctl("undo")
        check(rc == 0 and "rewind" not in reply["text"], f"{reply}")
        # The state from before the change is kept for it all the same, until something else is changed.
        rc, reply = r.ctl("-n", "undo", "--rewind")
        check(rc == 0, f"{reply}")
        check(r.ctl("lr", "*0.9")[0] == 0 and r.ctl("undo", "--rewind")[0] == 0, "no rewind of the new one")
        check(r.ctl("undo", "--rewind")[0] == 1, "rewound twice")


def an_undo_is_kept_by_a_resume():
    """It is in the journal before an update has used it, and in force once."""
    with Place() as p:
        r = p.start("r", max_epochs=20, checkpoint_interval="never")
        r.wait_update(5)
        check(r.ctl("batch", "+20%")[0] == 0, "no change")
        n = r.ctl("undo")[1]["effective_update"]
        r.wait_update(n + 5)
        r.send(9)
        r.process.wait()
        r = p.start("r", resume=True).end()
        batches = [m["global_batch_size"] for m in r.metrics()]
        check(38 in batches[:n - 1] and set(batches[n - 1:-1]) == {32}, f"{n}: {batches}")
        check([e["command"] for e in r.journal()] == ["batch +20%", "undo"], f"{r.journal()}")


def changes_are_told_in_the_foreground():
    with Place() as p:
        r = p.start("r", "--set", "changes=[{at: 10st, command: batch +20%}, {at: 30st, command: warmup +1ep}]",
                    max_epochs=20, checkpoint_interval="never", devices__memory="3MiB")
        r.wait_update(40)
        rc, reply = r.ctl("lr", "*0.5")
        check(rc == 0, f"{reply}")
        rc, refused = r.ctl("batch", "=1000000")
        check(rc == 1 and refused["code"] == "BST-203", f"{refused}")
        r.end()
        lines = [x for x in r.said().splitlines() if x.startswith("change  ")]
        check(lines[0].startswith("change  update 11  batch +20% (preset): batch 32 → 38"), f"{lines}")
        check("warmup +1ep (preset) refused BST-" in lines[1], f"{lines}")
        check(f"update {reply['effective_update']}  lr *0.5 (ctl " in lines[2] and "rate" in lines[2], f"{lines}")
        applied = [e for e in r.journal() if e["outcome"] in ("applied", "refused")]
        check(len(lines) == len(applied), f"{lines} {applied}")
        # One update and one code for each, in the log, the journal and the answer.
        for line, e in zip(lines, applied):
            code = f" refused {e['code']}: " if e["code"] else ": "
            check(line.startswith(f"change  update {e['update']}  {e['command']} ({e['source']}){code}"), f"{line} {e}")
        check(applied[3]["update"] == refused["effective_update"] and applied[3]["code"] == "BST-203", f"{applied[3]} {refused}")


def a_killed_run_stays_rewound():
    """The checkpoints of the branch that was left are the newest, and are not what is resumed from."""
    with Place() as p:
        whole = p.start("whole", max_epochs=16, checkpoint_interval="5st").end()
        r = p.start("k", max_epochs=16, checkpoint_interval="5st")
        r.wait_update(10)
        n = r.ctl("lr", "x3")[1]["effective_update"]
        r.wait_update(n + 12)
        check(r.ctl("pause")[0] == 0, "no pause")
        shutil.copytree(r.dir / "checkpoints", p.path / "before")
        check(r.ctl("undo", "--rewind")[0] == 0, "no rewind")
        r.send(9)
        r.process.wait()
        newest = max(r.dir.glob("checkpoints/*-update-*[0-9]"), key=lambda d: int(d.name.split("-")[0]))
        check(newest.name.endswith(f"-update-{n - 1}"), f"the rewound state was not saved: {newest}")
        # As if the kill had come before that.
        shutil.rmtree(r.dir / "checkpoints")
        shutil.move(p.path / "before", r.dir / "checkpoints")
        r = p.start("k", resume=True).end()
        check(list(r.dir.glob("checkpoints/*.bad")), "no checkpoint was passed over: not what this test is for")
        check(r.weights() == whole.weights() and r.series() == whole.series(), "resumed from the branch that was left")


def a_resume_goes_on_with_the_changes():
    """Acknowledged after the last checkpoint, and again after a checkpoint made while they were put back."""
    with Place() as p:
        slow = {"data__image_size": 24, "model__width": 8, "max_epochs": 12, "checkpoint_interval": "never"}
        r = p.start("r", **slow)
        r.wait_update(100)
        for command in ("batch +20%", "lr x0.5"):
            check(r.ctl(*command.split())[0] == 0, command)
        first, second = [e["update"] for e in r.journal()]
        r.wait_update(second + 2)
        r.send(9)
        r.process.wait()
        r = p.start("r", resume=True)
        c = Client(r_again(r), "ctl")
        reply = c.ask({"op": "command", "id": 1, "text": "checkpoint"}, "command")
        check(reply["outcome"] == "done", f"{reply}")
        n = reply["effective_update"]
        check(n < first, f"too fast for this test: {n} of {first}")
        reply = c.ask({"op": "command", "id": 2, "text": "lr x0.9"}, "command")
        check(reply["outcome"] == "refused" and "puts back" in reply["text"], f"{reply}")
        c.close()
        r.send(9)
        r.process.wait()
        r = p.start("r", resume=True)
        until(lambda: (s := r.status()).get("phase") == "training" and s["update"] > second + 1, "the changes put back")
        m = {x["update"]: x for x in r.metrics()}
        check(m[first - 1]["global_batch_size"] == 32 and m[first]["global_batch_size"] == 38, "the batch")
        check(near(m[second]["learning_rate"], m[second - 1]["learning_rate"] / 2) or
              m[second]["learning_rate"] < 0.6 * m[second - 1]["learning_rate"], "the rate")
        rc, reply = r.ctl("undo")
        check(rc == 0 and reply["changes"][0]["key"] == "learning_rate", f"{reply}")
        rc, reply = r.ctl("undo")
        check(rc == 0 and reply["changes"][0]["new"] == 32, f"{reply}")


def r_again(r):
    """Its socket is there before its first update is made: what is sent at once is taken in one of the first."""
    def listens():
        check(r.process.poll() is None, f"ended early: {r.said()}")
        info = json.loads((r.dir / "run.json").read_text())
        return info["pid"] == r.process.pid and os.path.exists(info["socket"])
    until(listens, "the socket of the process that resumes")
    return r


def a_run_is_made_longer():
    with Place() as p:
        r = p.start("l", max_epochs=2).end()
        rc, _, err = p.cli("run", "--resume", "--run-dir", r.dir, "--headless", "--set", "max_epochs=3", "--set", "momentum=0.5")
        check(rc == 0 and "momentum stays 0.9" in err, err)
        check(r.metrics()[-1]["samples"] == 3 * 640, "not longer")
        e = r.journal()[-1]
        check(e["command"] == "length =3ep" and e["source"] == "resume" and e["outcome"] == "applied", f"{e}")
        check([x["samples"] for x in r.metrics("eval")] == [640, 1280, 1920], "evaluations")


def pausing_ends_an_evaluation():
    with Place() as p:
        r = p.start("e", **{**LONG, "eval_interval": "1ep"}, data__eval_count=20000)
        r.wait_phase("evaluating")
        start = time.monotonic()
        check(r.ctl("pause")[0] == 0 and not r.metrics("eval"), "the evaluation was waited for")
        check(time.monotonic() - start < 20, "took long")
        check(r.ctl("resume")[0] == 0, "resume")
        until(lambda: r.metrics("eval"), "the evaluation after all")
        check(r.metrics("eval")[0]["samples"] == 640, "at another place")


def a_preset_is_one_change():
    with Place() as p:
        (p.path / "other.yaml").write_text(
            "name: Other\nmodel: {name: resnet14}\ndata: {format: shapes}\nglobal_batch_size: 64\nlearning_rate: 0.2\n"
            "lr_base_batch_size: 64\nwarmup_epochs: 2\nlr_scheduler: linear\nmax_grad_norm: 2\nmax_epochs: 7\n")
        r = p.start("p", **LONG)
        r.wait_update(2)
        rc, reply = r.ctl("preset", "other.yaml")
        if rc:  # a path is not a name
            p.env["BSTUNE_PRESET_DIR"] = str(p.path)
            r.ctl("stop")
            r.end()
            r = p.start("p2", **LONG)
            r.wait_update(2)
            rc, reply = r.ctl("preset", "other")
        check(rc == 0, f"{reply}")
        changed = {c["key"]: c["new"] for c in reply["changes"]}
        check(changed["global_batch_size"] == 64 and near(changed["learning_rate"], 0.2) and
              changed["lr_scheduler"] == "linear" and changed["max_grad_norm"] == 2, f"{changed}")
        kept = {k["key"] for k in reply["kept"]}
        check({"model.name", "max_epochs"} <= kept, f"{kept}")
        check(len([e for e in r.journal() if e["outcome"] == "applied"]) == 1, "not one change")
        total = r.status()["samples_total"]
        check(total == 400 * 640, "the length came along")


def a_paused_run_takes_changes():
    with Place() as p:
        r = p.start("q", **LONG)
        r.wait_update(3)
        check(r.ctl("pause")[0] == 0, "no pause")
        n = r.metrics()[-1]["update"]
        time.sleep(0.3)
        check(r.metrics()[-1]["update"] == n, "a paused run went on")
        rc, reply = r.ctl("batch", "=48")
        check(rc == 0 and "effective on resume" in reply["text"] and reply["code"] == "BST-314" and
              reply["effective_update"] == n + 1, f"{reply}")
        check(r.journal()[-1]["outcome"] == "applied", "not in the journal")
        check(r.ctl("eval")[0] == 0 and r.metrics("eval"), "no evaluation while paused")
        check(r.ctl("checkpoint")[0] == 0 and list(r.dir.glob("checkpoints/*/MANIFEST")), "no checkpoint while paused")
        check(r.ctl("resume")[0] == 0, "no resume")
        r.wait_update(n + 2)
        check({m["update"]: m for m in r.metrics()}[n + 1]["global_batch_size"] == 48, "not effective on resume")


def one_holds_the_lease():
    with Place() as p:
        r = p.start("l", **LONG)
        r.wait_update(1)
        first, second = Client(r, user="ann@gpu7"), Client(r, user="bob@home")
        check(first.ask({"op": "status", "id": 1}, "status")["status"]["you_hold_lease"], "the first console has no lease")
        reply = second.ask({"op": "command", "id": 2, "text": "lr x0.9"}, "command")
        check(reply["outcome"] == "refused" and "ann@gpu7" in reply["text"], f"{reply}")
        check(r.ctl("lr", "x0.9")[0] == 0, "ctl refused though nothing is armed")
        first.send({"op": "arm", "id": 3, "on": True})
        first.ask({"op": "status", "id": 4}, "status")
        rc, reply = r.ctl("lr", "x0.9")
        check(rc == 1 and reply["code"] == "BST-313" and "ann@gpu7" in reply["text"], f"{reply}")
        check(r.ctl("-n", "lr", "x0.9")[0] == 0, "a dry run needs no lease")
        lease = second.ask({"op": "lease", "id": 5, "take": True}, "lease")
        check(lease["you"] and lease["holder"] == "bob@home", f"{lease}")
        event = first.wait("event")
        check(event["holder"] == event["taken_by"] == "bob@home", f"the first was not told by whom: {event}")
        check("taken_by" not in lease, f"{lease}")
        check(first.ask({"op": "status", "id": 6}, "status")["status"]["lease_taken_by"] == "bob@home", "nor by the status")
        first.ask({"op": "lease", "id": 7, "take": True}, "lease")
        check(first.ask({"op": "status", "id": 8}, "status")["status"]["lease_taken_by"] == "", "it is back")
        second.ask({"op": "lease", "id": 9, "take": True}, "lease")
        check(r.ctl("lr", "x0.9")[0] == 0, "what the first had armed still holds")
        second.close()
        until(lambda: r.status()["lease"] == "", "the lease released")
        watcher = Client(r, readonly=True)
        reply = watcher.ask({"op": "command", "id": 6, "text": "lr x0.9"}, "command")
        check(reply["outcome"] == "refused" and reply["text"].startswith("read-only"), f"{reply}")


def a_readonly_run_takes_nothing():
    with Place() as p:
        r = p.start("ro", "--readonly", **LONG)
        r.wait_update(1)
        rc, reply = r.ctl("lr", "x0.9")
        check(rc == 1 and "read-only" in reply["text"], f"{reply}")
        check(r.ctl("-n", "lr", "x0.9")[0] == 0, "a dry run refused")


def the_words_give_the_rate_in_force():
    """Not the peak alone, which stands for no update of a run whose rate has decayed."""
    with Place() as p:
        r = p.start("w", **{**LONG, "max_epochs": 40, "warmup_epochs": 0})
        r.wait_update(250)
        check(r.ctl("pause")[0] == 0, "no pause")
        last = r.metrics()[-1]["learning_rate"]
        for dry in (("-n",), ()):
            rc, reply = r.ctl(*dry, "lr", "x0.5")
            before, after = (reply["schedule"][k] for k in ("learning_rate_before", "learning_rate"))
            check(rc == 0 and near(after, before / 2) and 0.9 * last < before < last < 0.0124, f"{reply} {last}")
            check(f"rate {before:.4g} → {after:.4g} (peak 0.0125 → 0.00625)" in reply["text"], reply["text"])
        check(r.journal()[-1]["text"] in reply["text"], "the journal has other words")
        rc, reply = r.ctl("decay", "constant")
        before, after = (reply["schedule"][k] for k in ("learning_rate_before", "learning_rate"))
        check(near(after, 0.00625) and f"rate {before:.4g} → 0.00625" in reply["text"], reply["text"])
        rc, reply = r.ctl("undo")
        check(f"rate 0.00625 → {before:.4g}" in reply["text"], reply["text"])


def a_batch_far_off_is_remarked_on():
    with Place() as p:
        r = p.start("f", **LONG)
        r.wait_update(1)
        rows = (("batch 2", "from 32 to 2 is 16 times smaller, for 2 % more write batch +2%"),
                ("batch 320", "from 32 to 320 is 10 times larger"), ("batch 8", ""), ("batch 128", ""), ("batch x5", ""))
        for command, words in rows:
            rc, reply = r.ctl("-n", *command.split())
            check(rc == 0 and words in reply["text"] and bool(words) == ("times" in reply["text"]), f"{command}: {reply}")


def the_cut_off_update_is_not_the_plan():
    with Place() as p:
        r = p.start("c", max_epochs=1, global_batch_size=96, warmup_epochs=0).end()
        check(r.metrics()[-1]["global_batch_size"] == 640 % 96, "not what this test is for")
        s = r.status()
        check((s["global_batch"], s["micro_batch"], s["phase"]) == (96, 96, "done"), f"{s}")


def exit_codes():
    with Place() as p:
        r = p.start("x", **LONG)
        r.wait_update(1)
        check(p.cli("ctl", r.dir, "batch", "much")[0] == 2, "a malformed command")
        check(p.cli("ctl", r.dir, "batcj", "+20%")[0] == 2, "an unknown command")
        check(p.cli("ctl", "nosuch", "batch", "+20%")[0] == 4, "no such run")
        check(p.cli("status", "nosuch")[0] == 4, "status of no run")
        check(p.cli("attach", "nosuch")[0] == 4, "attach to no run")
        check(r.ctl("warmup", "+1ep")[0] in (0, 1), "warmup")
        # What changes nothing is of the update that was made last: none begins with it.
        rc, reply = r.ctl("checkpoint")
        n = int(reply["text"].rsplit(" ", 1)[1])
        check(rc == 0 and reply["effective_update"] == r.journal()[-1]["update"] == n, f"{reply} {r.journal()[-1]}")
        check(p.cli("stop", r.dir)[0] == 0, "stop")
        r.end()
        stop = r.journal()[-1]
        check(stop["command"] == "stop" and stop["update"] == r.metrics()[-1]["update"], f"{stop} {r.metrics()[-1]}")
        check(stop["samples"] == r.metrics()[-1]["samples"], f"{stop} {r.metrics()[-1]}")
        state = json.loads((r.dir / "run.json").read_text())["state"]
        check(state == "stopped", state)
        check(json.loads((r.dir / "status.json").read_text())["phase"] == "stopped", "the last phase")
        check(p.cli("ctl", r.dir, "batch", "+20%")[0] == 4, "a run that is over")
        rc, out, _ = p.cli("status", "--json", r.dir)
        check(rc == 0 and json.loads(out)["update"] == r.metrics()[-1]["update"], "status of a run that is over")


if __name__ == "__main__":
    main(plus_twenty_percent_is_exact_and_immediate, presses_are_one_proposal, memory_decides_to_the_byte,
         undo_and_redo, rewind_brings_the_weights_back, an_undo_says_that_the_weights_are_bad,
         a_harmless_undo_says_nothing_of_it, an_undo_is_kept_by_a_resume, changes_are_told_in_the_foreground, a_killed_run_stays_rewound,
         a_resume_goes_on_with_the_changes, a_run_is_made_longer, pausing_ends_an_evaluation, a_preset_is_one_change, a_paused_run_takes_changes,
         one_holds_the_lease, a_readonly_run_takes_nothing, the_words_give_the_rate_in_force,
         a_batch_far_off_is_remarked_on, the_cut_off_update_is_not_the_plan, exit_codes)
