#!/usr/bin/env python3
"""A run's folder that is deleted, moved or replaced while the run goes on."""
import json
import os
import shutil

from bst import TINY, Place, Run, check, main, signal, until

LONG = {"max_epochs": 4000, "eval_interval": "never", "checkpoint_interval": "never"}


def said(r, code):
    return [m for m in r.metrics("note") if m.get("code") == code]


def checkpoints(r):
    return [d for d in r.dir.glob("checkpoints/*-update-*") if d.name.split("-")[-1].isdigit()]


def remove(path):
    """Also when the trainer is quicker with making it again."""
    def gone():
        try:
            shutil.rmtree(path)
            return True
        except OSError:
            return False
    until(gone, f"{path} to be deleted")


def put_back(r):
    until(lambda: "BST-608" in r.said() and checkpoints(r), "the folder and a checkpoint in it")


def deleted_while_it_trains():
    """The whole folder: noticed, told of everywhere, put back; and what is there then is enough to resume from,
    bit for bit: its settings come from the journal."""
    with Place() as p:
        r = p.start("d", lr_scheduler="constant", **LONG)  # so that the numbers do not depend on the length
        r.wait_update(5)
        check(r.ctl("batch", "=40")[0] == 0 and r.ctl("lr", "x0.5")[0] == 0, "the changes")
        journal = (r.dir / "journal.jsonl").read_bytes()
        preset = (r.dir / "preset.yaml").read_bytes()
        remove(r.dir)
        put_back(r)
        check((r.dir / "journal.jsonl").read_bytes() == journal, "the journal is another")
        check((r.dir / "preset.yaml").read_bytes() == preset, "the preset is another")
        check(said(r, "BST-608") and "journal entries" in said(r, "BST-608")[0]["text"], "the metrics do not say it")
        s = r.status()
        check(s["note_code"] == "BST-608" and "deleted" in s["note"], f"{s['note_code']} {s['note']}")
        rc, out, _ = p.cli("list", "--json")
        (mine,) = [x for x in json.loads(out) if x["name"] == "d"]
        check(rc == 0 and mine["live"] and mine["state"] == "running" and mine["started"] > 1e9, f"{mine}")
        rc, _, err = p.cli("run", "quickstart", "--headless", "--run-dir", r.dir, "--resume")
        check(rc == 1 and "goes on already" in err, f"a second trainer: {rc} {err}")
        n = r.status()["update"]
        check(r.ctl("clip", "=3")[0] == 0, "a change afterwards")
        until(lambda: r.metrics() and r.metrics()[-1]["update"] > n, "updates in the new metrics")
        check(r.lines("recording.jsonl")[0]["whole"], "the recording does not begin anew")
        check(r.ctl("stop")[0] == 0, "stop")
        r.end()
        first, at = r.metrics(), r.status()
        check([m["update"] for m in first] == list(range(first[0]["update"], at["update"] + 1)), "updates are missing")
        check([e["seq"] for e in r.journal()] == [1, 2, 3, 4], "the journal has a gap")

        # One and the same end, from the stop and from the first checkpoint after the loss.
        ends = []
        for name, keep in (("from-stop", checkpoints(r)), ("from-first", [min(checkpoints(r), key=number)])):
            shutil.copytree(r.dir, p.path / name)
            again = p.path / name
            for c in (again / "checkpoints").iterdir():
                if c.name not in [k.name for k in keep]:
                    shutil.rmtree(c)
            resumed = p.start(name, "--set", f"max_steps={at['update'] + 60}", resume=True)
            resumed.end()
            check("resumed from update" in resumed.said(), resumed.said())
            ends.append((resumed.weights(), resumed.series()[-1]))
            # The updates that both have: the same numbers.
            both = {m[0]: m for m in resumed.series()}
            check(all(both[m["update"]][2] == m["loss"] for m in first if m["update"] in both), f"{name}: other losses")
        check(ends[0] == ends[1], f"other ends: {ends}")


def number(c):
    return int(c.name.split("-")[0])


def a_part_is_deleted():
    """rm -r of what is in it; then of single files; in a pause too."""
    with Place() as p:
        r = p.start("p", **LONG)
        r.wait_update(3)
        check(r.ctl("batch", "=40")[0] == 0, "the change")
        for file in r.dir.iterdir():
            shutil.rmtree(file) if file.is_dir() else file.unlink()
        put_back(r)
        check(r.ctl("pause")[0] == 0, "pause")
        journal = (r.dir / "journal.jsonl").read_bytes()
        for file in ("journal.jsonl", "lock", "run.json", "preset.yaml", "metrics.jsonl"):
            (r.dir / file).unlink()
            until((r.dir / file).exists, f"{file} again")
        shutil.rmtree(r.dir / "checkpoints")
        until(lambda: checkpoints(r), "a checkpoint in the pause")
        check((r.dir / "journal.jsonl").read_bytes().startswith(journal), "the journal has lost something")
        rc, _, err = p.cli("run", "quickstart", "--headless", "--run-dir", r.dir, "--resume")
        check(rc == 1 and "goes on already" in err, f"a second trainer: {rc} {err}")
        r.send(signal.SIGTERM)
        r.end(75)


def moved_away():
    with Place() as p:
        r = p.start("m", **LONG)
        r.wait_update(3)
        os.rename(r.dir, p.path / "elsewhere")
        put_back(r)
        check(any("moved to" in m["text"] and "elsewhere" in m["text"] for m in said(r, "BST-608")), "where to is not said")
        r.send(signal.SIGTERM)
        r.end(75)


def a_rewind_over_the_loss():
    """What is held in memory is from before it; the metrics and checkpoints of that time are gone."""
    with Place() as p:
        whole = p.start("whole", max_epochs=16, checkpoint_interval="never").end()
        r = p.start("w", max_epochs=16, checkpoint_interval="never")
        r.wait_update(3)
        check(r.ctl("lr", "x3")[0] == 0 and r.ctl("pause")[0] == 0, "the change and a pause")
        remove(r.dir)
        put_back(r)
        rc, reply = r.ctl("undo", "--rewind")
        check(rc == 0, f"{reply}")
        check(r.ctl("resume")[0] == 0, "resume")
        r.end()
        check(r.weights() == whole.weights(), "another end")
        mine = r.series()
        check(mine == whole.series()[-len(mine):] and len(mine) > 50, "other updates")


def its_place_is_taken():
    """A file, then another run's folder: both stay as they are, training goes on, nothing is said to be saved;
    once the place is free the run has its folder again."""
    with Place() as p:
        other = p.start("other", max_epochs=2).end()
        before = {f.name: f.read_bytes() for f in other.dir.iterdir() if f.is_file()}
        r = p.start("t", **LONG)
        r.wait_update(3)
        check(r.ctl("batch", "=40")[0] == 0, "the change")
        remove(r.dir)
        r.dir.write_text("precious")
        until(lambda: "BST-609" in r.said() and "is a file now" in r.said(), "a refusal")
        n = r.status()["update"]
        until(lambda: r.status()["update"] > n + 3, "training to go on")
        s = r.status()
        check(s["note_code"] == "BST-609", f"{s['note_code']} {s['note']}")
        check(s["devices"][0]["memory_hold"] > 0, "the memory kept for a rewind is not shown")
        rc, out, _ = p.cli("list")
        check(rc == 0 and "no folder" in out and "1970" not in out, out)
        rc, reply = r.ctl("batch", "=50")
        check(rc == 1 and reply["outcome"] == "refused" and reply["code"] == "BST-609", f"{reply}")
        check("BST-" not in reply["text"], f"the code is said twice: {reply}")
        rc, reply = r.ctl("checkpoint")
        check(rc == 1 and "is a file now" in reply["text"], f"{reply}")
        check(r.dir.read_text() == "precious", "the file was written to")
        check(r.status()["global_batch"] == 40, "the refused change is in force")

        r.send(signal.SIGSTOP)  # not between the two
        r.dir.unlink()
        os.rename(other.dir, r.dir)
        r.send(signal.SIGCONT)
        until(lambda: "than the run's is there now" in r.said(), "the next refusal")
        check({f.name: f.read_bytes() for f in r.dir.iterdir() if f.is_file()} == before, "another run's files were changed")
        check("BST-608" not in r.said(), "said to be made again")
        os.rename(r.dir, other.dir)
        put_back(r)
        check(r.ctl("lr", "x0.5")[0] == 0 and r.journal()[0]["command"] == "batch =40", "the journal")
        r.send(signal.SIGTERM)
        r.end(75)
        again = p.start("t", resume=True)
        until(lambda: again.status().get("phase") == "training", "the resumed run to train")
        check("resumed from update" in again.said() and again.ctl("stop")[0] == 0, again.said())
        again.end()


def another_holds_its_lock():
    """Of a trainer that came to the empty place first, on another host."""
    with Place() as p:
        r = p.start("l", **LONG)
        r.wait_update(3)
        r.send(signal.SIGSTOP)  # until the other has begun
        os.rename(r.dir, p.path / "l-old")
        mine, p.env = p.env, dict(p.env, BSTUNE_SOCKET_DIR=str(p.path / "s2"))
        rival = Run(p, "l", (), False, {**TINY, **LONG})
        p.env = mine
        rival.wait_update(3)
        r.send(signal.SIGCONT)
        until(lambda: "BST-609" in r.said(), "the one without it to say so")
        rival.wait_update(rival.metrics()[-1]["update"] + 3)
        rival.send(signal.SIGTERM)
        rival.end(75)
        # Nor does what the other has left become its own.
        r.send(signal.SIGTERM)
        r.end(1)
        check(len({m["update"] for m in rival.metrics()}) == len(rival.metrics()), "two wrote into one file")
        check("BST-608" not in r.said(), "both had the folder")


main(deleted_while_it_trains, a_part_is_deleted, moved_away, a_rewind_over_the_loss, its_place_is_taken,
     another_holds_its_lock)
