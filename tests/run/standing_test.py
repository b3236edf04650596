#!/usr/bin/env python3
"""What a run is that nobody trains any more: every verb says the same of it, whatever is left in its folder."""
import json
import subprocess

from bst import BSTUNE, Place, check, main

LONG = {"max_epochs": 4000, "checkpoint_interval": "5st"}


def killed(p, name, **settings):
    r = p.start(name, **{**LONG, **settings})
    r.wait_update(12)
    r.send(9)
    r.process.wait()
    return r


def phase_of(p, r):
    """The one word that list, status (for people and as JSON) and the export have for a run."""
    rc, out, err = p.cli("list", "--json")
    check(rc == 0, err)
    state, = [x["state"] for x in json.loads(out) if x["name"] == r.name]
    rc, out, err = p.cli("status", r.dir)
    check(rc == 0 and out.startswith(f"{r.name}  {state}  "), f"{state}: {rc} {out}{err}")
    rc, text, err = p.cli("status", "--json", r.dir)
    check(rc == 0 and json.loads(text)["phase"] == state, f"{state}: {rc} {text}{err}")
    rc, sheet, err = p.cli("export", r.dir, "-f", "prometheus")
    check(rc == 0 and f'bstune_phase{{run="{r.name}",phase="{state}"}} 1' in sheet, f"{state}: {rc} {sheet}{err}")
    check(f'bstune_up{{run="{r.name}"}} 0' in sheet, sheet)
    return state, out, json.loads(text), sheet


def ended_in_every_way():
    with Place() as p:
        (p.path / "runs").mkdir()
        here = lambda name: f"runs/{name}"
        done = p.start(here("done"), max_epochs=1, warmup_epochs=0)
        stopped, term = p.start(here("stopped"), **LONG), p.start(here("term"), **LONG)
        for r in (stopped, term):
            r.wait_update(3)
        check(stopped.ctl("stop")[0] == 0, "no stop")
        term.send(15)
        runs = [(done.end(), "done"), (stopped.end(), "stopped"), (term.end(75), "preempted"),
                (killed(p, here("killed")), "killed"), (killed(p, here("early"), checkpoint_interval="never"), "killed")]
        for r, want in runs:
            r.name = r.dir.name
            state, said, status, _ = phase_of(p, r)
            check(state == want, f"{r.name} is {state}, not {want}")
            # Also what came after the last status.json.
            check(status["update"] == r.metrics()[-1]["update"], f"{r.name}: update {status['update']}")
            check("before its first update" not in said, said)


def killed_before_its_first_update():
    with Place() as p:
        (p.path / "runs").mkdir()
        r = killed(p, "runs/k", checkpoint_interval="never")
        r.name = "k"
        check(not (r.dir / "status.json").exists(), "this run has a status.json: not what this test is for")
        (r.dir / "metrics.jsonl").unlink()
        state, said, status, sheet = phase_of(p, r)
        check(state == "killed" and "killed before its first update" in said, said)
        check(status["update"] == 0 and status["run"] == "k", f"{status}")
        # What is not known has no line, rather than a 0.
        check("bstune_updates_total" in sheet and "target_samples" not in sheet and "batch_size" not in sheet, sheet)
        (r.dir / "journal.jsonl").unlink()
        rc, out, err = p.cli("journal", r.dir)
        check(rc == 0 and not out and "nothing was changed" in err, f"{rc} {out}{err}")
        rc, out, err = p.cli("journal", r.dir, "--export-preset", "-")
        check(rc == 0 and "command:" not in out and "max_epochs: 4000" in out, f"{rc} {out}{err}")


def a_damaged_status_is_named():
    with Place() as p:
        r = p.start("r", max_epochs=1, warmup_epochs=0).end()
        path = r.dir / "status.json"
        for bad in (path.read_bytes()[:200], b"", b"[]", b'{"phase":3}'):
            path.write_bytes(bad)
            for verb in (("status", r.dir), ("export", r.dir, "-f", "prometheus")):
                rc, out, err = p.cli(*verb)
                check(rc == 1 and str(path) in err, f"{verb}: {rc} {out}{err}")


def names_are_made_safe():
    """A folder may be called anything; no line for people carries its escapes to the terminal."""
    with Place() as p:
        name = "a\x1b]0;b\x07\x1b[31m"
        sets = [x for k, v in {"data.format": "shapes", "data.train_count": 64, "data.eval_count": 8, "data.image_size": 12,
                               "model.width": 2, "global_batch_size": 32, "max_epochs": 1, "warmup_epochs": 0,
                               "devices.threads": 1}.items() for x in ("--set", f"{k}={v}")]
        said = [subprocess.run([BSTUNE, *args], env=p.env, cwd=p.path, capture_output=True, timeout=120)
                for args in (("run", "quickstart", "--headless", "--run-dir", name, *sets),
                             ("run", "quickstart", "--headless", "--run-dir", name, *sets), ("status", name),
                             ("status", name + "x"), ("export", name, "-o", name), ("list",), ("journal", name),
                             ("sweep", name), ("report", name), ("fit", name), ("preset", "check", name + ".yaml"))]
        check(said[0].returncode == 0 and b"\\x1b" in said[0].stdout, f"{said[0]}")
        for one in said:
            check(b"\x1b" not in one.stdout + one.stderr and b"\x07" not in one.stdout + one.stderr, f"{one}")
        check(b"\\x1b" in said[2].stdout and b"\\x1b" in said[3].stderr, f"{said[2]} {said[3]}")


if __name__ == "__main__":
    main(ended_in_every_way, killed_before_its_first_update, a_damaged_status_is_named, names_are_made_safe)
