#!/usr/bin/env python3
"""One owner a run folder, whatever starts at once; names and folders of runs."""
import json

from bst import BSTUNE, Place, check, main, signal, subprocess_many, until


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
        check(p.cli("stop")[0] == 0, "stop")
        r.end()
        check(json.loads(p.cli("list", "--json")[1]) == [], "still listed after its end")
        p.path = home


if __name__ == "__main__":
    main(fifty_starters_one_winner, names_count_up, a_dead_trainer_leaves_no_obstacle,
         a_run_is_found_from_anywhere)
