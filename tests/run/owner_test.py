#!/usr/bin/env python3
"""One owner a run folder, whatever starts at once; names and folders of runs."""
import json

from bst import BSTUNE, TINY, Place, Run, check, main, signal, subprocess_many, until


def fifty_starters_one_winner():
    with Place() as p:
        args = [BSTUNE, "run", "quickstart", "--headless", "--run-dir", "one", "--set", "data.format=shapes",
                "--set", "data.train_count=64", "--set", "data.eval_count=8", "--set", "data.image_size=8",
                "--set", "model.width=4", "--set", "max_epochs=2000", "--set", "warmup_epochs=0",
                "--set", "global_batch_size=8", "--set", "devices.threads=1", "--set", "eval_interval=never",
                "--set", "checkpoint_interval=never"]
        many = subprocess_many(p, 50, args)
        until(lambda: sum(x.poll() is None for x in many) <= 1, "losers to end")
        alive = [x for x in many if x.poll() is None]
        check(len(alive) == 1, f"{len(alive)} own the run")
        codes = {x.poll() for x in many if x is not alive[0]}
        check(codes <= {1, 2}, f"losers ended with {codes}")
        check(json.loads((p.path / "one" / "run.json").read_text())["pid"] == alive[0].pid, "another pid in run.json")
        check(p.cli("status", "one")[0] == 0, "the winner does not answer")
        alive[0].send_signal(signal.SIGTERM)
        check(alive[0].wait(60) == 75, "the winner did not end well")


def names_count_up():
    with Place() as p:
        few = ["--set", "data.format=shapes", "--set", "data.train_count=64", "--set", "data.eval_count=8",
               "--set", "data.image_size=8", "--set", "model.width=4", "--set", "max_epochs=1", "--set", "global_batch_size=64",
               "--set", "warmup_epochs=0", "--set", "devices.threads=1"]
        for _ in range(2):
            rc, out, err = p.cli("run", "quickstart", "--headless", *few)
            check(rc == 0, err)
        names = sorted(d.name for d in (p.path / "runs").iterdir())
        check(names == ["quickstart-1", "quickstart-2"], f"{names}")
        rc, out, _ = p.cli("list", "--json")
        check(rc == 0 and [r["name"] for r in json.loads(out)] == ["quickstart-2", "quickstart-1"], out)
        check(p.cli("status")[0] == 4, "two runs, and one was chosen")
        check(p.cli("status", "quickstart-2")[0] == 0 and p.cli("status", "runs/quickstart-1")[0] == 0, "by name and folder")
        rc, _, err = p.cli("run", "quickstart", "--headless", "--run-dir", "runs/quickstart-1", *few)
        check(rc == 2 and "--resume" in err, f"a used folder: {rc} {err}")
        rc, _, err = p.cli("run", "quickstart", "--headless", "--resume", *few)
        check(rc == 0, f"resume of the last: {rc} {err}")


def a_dead_trainer_leaves_no_obstacle():
    with Place() as p:
        r = p.start("k", max_epochs=400)
        r.wait_update(3)
        path = r.socket_path()
        r.send(signal.SIGKILL)
        r.process.wait()
        rc, out, _ = p.cli("list", "--json")
        check(p.cli("ctl", r.dir, "eval")[0] == 4, "a dead run took a command")
        again = p.start("k", resume=True)
        again.wait_phase("training")  # the lines of the one before are there already
        check(again.socket_path() == path, "another socket")
        check((got := again.ctl("stop"))[0] == 0, f"stop: {got} {again.said()}")
        again.end()
        notes = [m.get("code") for m in again.metrics("note")]
        check("BST-704" in notes, f"nothing said that it had been killed: {notes}")


def a_run_is_found_from_anywhere():
    with Place() as p:
        r = p.start("far", max_epochs=4000, eval_interval="never")
        r.wait_update(2)
        (p.path / "else").mkdir()
        home = p.path
        p.path = home / "else"
        rc, out, _ = p.cli("list", "--json")
        check(rc == 0 and [x["name"] for x in json.loads(out)] == ["far"], out)
        for which in ((), ("far",)):
            rc, out, err = p.cli("status", "--json", *which)
            check(rc == 0 and json.loads(out)["run"] == "far", f"{which}: {err}")
        # What changes a run does not take another folder's unless it is named, and says which there is.
        for args in (("stop",), ("ctl", "batch", "+20%"), ("ctl", "-n", "lr", "x2"), ("trial", "lr", "x2"), ("stop", "--json")):
            rc, out, err = p.cli(*args)
            check(rc == 4 and f"elsewhere far ({r.dir}) is" in err, f"{args}: {rc} {out}{err}")
        check(json.loads(out)["outcome"] == "refused", out)
        check(r.journal() == [] and r.process.poll() is None, "another folder's run was changed")
        rc, out, err = p.cli("journal")
        check(rc == 0 and str(r.dir) in err, f"whose journal it is: {err}")
        check(str(r.dir) in p.cli("list")[1], "where it is")
        rc, out, err = p.cli("ctl", "far", "lr", "x0.5")
        check(rc == 0 and out.startswith("far: applied: "), f"{rc} {out}{err}")
        rc, out, err = p.cli("ctl", "far", "batch", "=100000000")
        check(rc == 1 and err.startswith("far: refused BST-203: "), f"{rc} {out}{err}")
        # In its folder, and in the one around it, it is meant; the answer says which it was.
        for there in (r.dir, home, r.dir / "checkpoints"):
            p.path = there
            there.mkdir(exist_ok=True)
            rc, out, err = p.cli("ctl", "--json", "lr", "x0.9")
            o = json.loads(out)
            check(rc == 0 and (o["run"], o["dir"], o["outcome"]) == ("far", str(r.dir), "applied"), f"{there}: {rc} {out}{err}")
        # A second one that bears its name: the name is no longer enough, nor is none.
        p.path = home / "else"
        other = Run(p, "far", (), False, {**TINY, "max_epochs": 4000, "eval_interval": "never"})
        other.wait_update(2)
        p.path = home / "third"
        p.path.mkdir()
        rc, out, err = p.cli("stop", "far")
        check(rc == 4 and str(r.dir) in err and str(other.dir) in err, f"{rc} {out}{err}")
        p.path = home
        rc, out, err = p.cli("stop")
        check(rc == 4 and "2 runs are live, say which: " in err and f"far ({other.dir})" in err and f"far ({r.dir})" not in err, f"{rc} {err}")
        check(p.cli("stop", other.dir)[1].startswith("far: done: "), "the other's stop")
        other.end()
        rc, out, err = p.cli("stop")
        check(rc == 0 and out.startswith("far: done: stopped at update "), f"{rc} {out}{err}")
        r.end()
        check(json.loads(p.cli("list", "--json")[1]) == [], "still listed after its end")
        p.path = home


def records_are_of_this_folder_first():
    """A run that lives elsewhere is taken only where this folder has none; what was not named is said."""
    with Place() as p:
        far = p.start("far", max_epochs=4000, eval_interval="never")
        far.wait_update(2)
        home, p.path = p.path, p.path / "else"
        (p.path / "runs").mkdir(parents=True)
        for n in (1, 2):
            r = p.start(f"runs/mine-{n}", max_epochs=1, warmup_epochs=0, learning_rate=0.01 * n)
            r.wait_update(1)
            rc, said = r.ctl("lr", f"={0.01 * n}1")
            check(rc == 0, f"{said}")
            r.end()
        for args, word in ((("journal",), "lr =0.021"), (("journal", "--export-preset", "-"), "lr =0.021"),
                           (("export",), "update")):
            rc, out, err = p.cli(*args)
            check(rc == 0 and word in out and err == f"bstune {args[0]}: of mine-2\n", f"{args}: {rc} {out}{err}")
        # What says how a run stands, and a monitor, mean what lives.
        rc, out, err = p.cli("status", "--json")
        check(rc == 0 and json.loads(out)["run"] == "far", f"{rc} {out}{err}")
        rc, out, err = p.cli("export", "-f", "prometheus")
        check(rc == 0 and 'run="far"' in out and err == f"bstune export: of a run elsewhere, {far.dir}\n", f"{rc} {out}{err}")
        # One of this folder that lives is before those that ended, and before another folder's.
        r = p.start("runs/alive", max_epochs=4000, eval_interval="never")
        r.wait_update(1)
        rc, out, err = p.cli("journal")
        check(rc == 0 and err.startswith("bstune journal: of alive\n"), f"{rc} {out}{err}")
        rc, out, err = p.cli("status", "--json")
        check(rc == 0 and json.loads(out)["run"] == "alive", f"{rc} {out}{err}")
        p.path = home / "bare"
        p.path.mkdir()
        rc, out, err = p.cli("journal")
        check(rc == 4 and "2 runs are live, say which: " in err, f"{rc} {out}{err}")
        p.path = home
        for x in (r, far):
            x.ctl("stop")
            x.end()


if __name__ == "__main__":
    main(fifty_starters_one_winner, names_count_up, a_dead_trainer_leaves_no_obstacle,
         a_run_is_found_from_anywhere, records_are_of_this_folder_first)
