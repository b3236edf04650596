#!/usr/bin/env python3
"""`bstune sweep`: the same training at several batches, whatever kills it on the way."""
import csv
import io
import json
import os
import re
import signal
import subprocess

from bst import BSTUNE, Place, TINY, check, main, until

SETS = [x for k, v in TINY.items() if k not in ("global_batch_size", "max_epochs") for x in ("--set", f"{k}={v}")]


def begin(p, *more, dir="w"):
    return ["sweep", "quickstart", *SETS, "--batch", "16,64", "--epochs", "2", "--repeat", "2", "--run-dir",
            p.path / dir, *more]


def table(p, dir="w"):
    rc, out, err = p.cli("sweep", p.path / dir, "--json")
    check(rc == 0, err)
    return json.loads(out)


def results(p, dir="w"):
    """All that does not depend on the machine's speed."""
    keep = ("batch", "runs", "accuracy_percent", "accuracy_error_points", "best_accuracy_percent", "loss",
            "memory_planned_bytes", "most_accurate", "largest_that_fits")
    return [{k: row[k] for k in keep} for row in table(p, dir)["rows"]]


def runs_all_and_says_so():
    with Place() as p:
        rc, out, err = p.cli(*begin(p))
        check(rc == 0, out + err)
        check([int(x) for x in re.findall(r"^\d of 4  batch (\d+)", out, re.M)] == [16, 64, 16, 64], out)
        rows = table(p)["rows"]
        check([r["batch"] for r in rows] == [16, 64] and all(r["runs"] == 2 for r in rows), f"{rows}")
        # So few images may leave the accuracy open.
        check(sum(r["choice"] for r in rows) == (0 if "choice and most accurate: unknown" in out else 1), out)
        check(sum(r["fastest"] and r["as_fast"] for r in rows) == 1, f"{rows}")
        check(rows[1]["memory_planned_bytes"] > 2 * rows[0]["memory_planned_bytes"], "memory of another batch")
        for row in rows:
            accuracies, rates = [], []
            for seed in (1, 2):
                run = p.path / "w" / f"b{row['batch']:05d}-s{seed}"
                lines = [json.loads(x) for x in (run / "metrics.jsonl").read_text().splitlines()]
                updates = [m for m in lines if m["type"] == "update"]
                check({m["global_batch_size"] for m in updates} <= {row["batch"], 1280 % row["batch"]}, "another batch")
                check(updates[-1]["samples"] == 1280, "another length")
                accuracies.append([m for m in lines if m["type"] == "eval"][-1]["accuracy_top1"])
                peak = max(m["learning_rate"] for m in updates)
                rates.append(peak / row["batch"])
            check(abs(row["accuracy_percent"] - 50 * sum(accuracies)) < 1e-9, f"{row} {accuracies}")
            row["rate"] = rates
        # By the rule, the rate goes with the batch.
        check(0.8 < rows[0]["rate"][0] / rows[1]["rate"][0] < 1.25, f"{rows}")


def killed_and_gone_on_with():
    with Place() as p:
        rc, out, err = p.cli(*begin(p, dir="whole"))
        check(rc == 0, out + err)
        for n in range(3):
            args = begin(p) if n == 0 else ["sweep", p.path / "w"]
            s = subprocess.Popen([BSTUNE, *map(str, args)], env=p.env, cwd=p.path, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL, start_new_session=True)
            want = list((p.path / "w").glob("b*-s?")) if n else []
            until(lambda: len(list((p.path / "w").glob("b*-s?/metrics.jsonl"))) > len(want) or s.poll() is not None,
                  "another run has begun")
            os.killpg(s.pid, signal.SIGKILL)
            s.wait()
        rc, out, err = p.cli("sweep", p.path / "w")
        check(rc == 0 and "of 4 runs are there" in out, out + err)
        check(results(p) == results(p, "whole"), f"{results(p)}\n{results(p, 'whole')}")


def one_command_at_a_time():
    with Place() as p:
        s = subprocess.Popen([BSTUNE, *map(str, begin(p))], env=p.env, cwd=p.path, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, start_new_session=True)
        until(lambda: list((p.path / "w").glob("b*-s?/metrics.jsonl")), "the first run")
        rc, out, err = p.cli("sweep", p.path / "w")
        check(rc == 1 and "another command sweeps it" in err or s.poll() is not None, f"{rc} {out} {err}")
        check(s.wait(timeout=60) == 0, "the first command failed")
        # What an earlier start has left says nothing of a run that is there.
        (p.path / "w" / "b00016-s1.failed").write_text("the run goes on already\n")
        t = table(p)
        check(t["failed"] == 0 and t["done"] == 4, f"{t}")


def asked_to_end():
    with Place() as p:
        s = subprocess.Popen([BSTUNE, *map(str, begin(p))], env=p.env, cwd=p.path, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, start_new_session=True, encoding="utf-8")
        until(lambda: list((p.path / "w").glob("b*-s?/metrics.jsonl")), "the first run")
        os.killpg(s.pid, signal.SIGINT)
        out, _ = s.communicate(timeout=60)
        check(s.returncode == 75 and "goes on from here" in out, f"{s.returncode} {out}")
        rc, out, err = p.cli("sweep", p.path / "w")
        check(rc == 0, out + err)


def a_batch_that_cannot_be():
    with Place() as p:
        rc, out, err = p.cli("sweep", "quickstart", *SETS, "--set", "gradient_accumulation_steps=1", "--set",
                             "devices.memory=2MiB", "--batch", "16,512", "--epochs", "1", "--set", "warmup_epochs=0.5", "--run-dir", p.path / "w")
        check(rc == 0 and "batch 512, seed 1: a batch" in out and "2.00 MiB" in out, out + err)
        t = table(p)
        check(t["failed"] == 1 and [r["batch"] for r in t["rows"]] == [16], f"{t}")


def what_is_refused():
    with Place() as p:
        for args, word in ((["quickstart", "--batch", "32,32"], "--batch"), (["quickstart", "--repeat", "0"], "--repeat"),
                           (["quickstart", "--epochs", "x"], "max_epochs"),
                           (["quickstart", "--set", "max_epochs=1"], "--epochs"), (["nothing"], "nothing"),
                           (["quickstart", "--delta", "-1"], "--delta"), ([], "sweep")):
            rc, out, err = p.cli("sweep", *args, "--run-dir", p.path / "w")
            check(rc == 2 and word in err, f"{args}: {rc} {err}")
            check(not (p.path / "w").exists(), f"{args}: left a folder behind")
        rc, out, err = p.cli("sweep", "quickstart", *SETS, "--batch", "16", "--epochs", "2", "--run-dir", p.path / "w")
        check(rc == 0, err)
        rc, out, err = p.cli("sweep", p.path / "w", "--batch", "8")
        check(rc == 2 and "without --batch" in err, f"{rc} {err}")
        # What could not be run is not begun, as by `run`.
        for args, word in ((["quickstart", "--batch", "16,16777217"], "from 1 to 16777216"),
                           (["finetune-last", "--batch", "16"], "init")):
            rc, out, err = p.cli("sweep", *args, "--run-dir", p.path / "v")
            check(rc == 2 and word in err and not (p.path / "v").exists(), f"{args}: {rc} {err}")


def a_damaged_sweep_is_refused():
    with Place() as p:
        rc, out, err = p.cli("sweep", "quickstart", *SETS, "--batch", "16", "--epochs", "1", "--set", "warmup_epochs=0",
                             "--run-dir", p.path / "w")
        check(rc == 0, err)
        path = p.path / "w" / "sweep.json"
        good = json.loads(path.read_text())
        cases = [({**good, "batches": b}, word) for b, word in (
            ([16, "32"], "item 2 is not a whole number"), ([16, -1], "item 2"), ([16.5], "item 1"), ([16, 0], "item 2"),
            ([16, 1 << 40], "from 1 to 16777216"), ([16, 16], "16 is there twice"), ([], "a list of 1 to 32"),
            ("16", "a list of 1 to 32"), (list(range(1, 40)), "a list of 1 to 32"), (None, "a list of 1 to 32"))]
        cases += [({**good, "repeats": 99}, '"repeats" is not 1 to 16'), ({**good, "version": 2}, '"version"')]
        for bad, word in [(json.dumps(x), w) for x, w in cases] + [(path.read_text()[:40], "sweep.json:"), ("", "sweep.json:1:")]:
            path.write_text(bad)
            for verb in ("sweep", "report", "attach"):
                rc, out, err = p.cli(verb, p.path / "w")
                check(rc == 1 and str(path) in err and word in err, f"{verb} {bad}: {rc} {out}{err}")


def report_is_one_page():
    with Place() as p:
        rc, out, err = p.cli(*begin(p))
        check(rc == 0, err)
        rc, out, err = p.cli("report", p.path / "w")
        check(rc == 0, err)
        page = (p.path / "w" / "report.html").read_text()
        check(out.strip() == str(p.path / "w" / "report.html"), out)
        check(not re.search(r"""(src|href)=["']?(https?:|//|file:)""", page), "the page needs something else")
        check(page.count("<svg") >= 3 and "<table" in page and page.rstrip().endswith("</html>"), page[:400])
        for row in table(p)["rows"]:
            check(f"{row['accuracy_percent']:.2f}" in page, "an accuracy is missing")
        rows = list(csv.DictReader(io.StringIO((p.path / "w" / "report.csv").read_text())))
        check([float(r["loss"]) for r in rows] == [r["loss"] for r in table(p)["rows"]], f"{rows}")
        for name in ("accuracy", "speed", "curves"):
            for end, magic in (("svg", b"<?xml"), ("png", b"\x89PNG")):
                check((p.path / "w" / f"{name}.{end}").read_bytes().startswith(magic), f"{name}.{end}")


if __name__ == "__main__":
    main(runs_all_and_says_so, killed_and_gone_on_with, one_command_at_a_time, asked_to_end, a_batch_that_cannot_be, what_is_refused,
         a_damaged_sweep_is_refused, report_is_one_page)
