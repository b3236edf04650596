"""run.find_cli: fit and lrfind on the command line: tables, files, a rate proposed to a run, bad arguments."""
import json
import pathlib
import re
import signal
import subprocess

from bst import BSTUNE, TINY, Place, check, main, until

# Small enough for seconds, and a loss that falls within a pass.
LEARNS = {**TINY, "model.width": 8, "model.classes": 3, "data.image_size": 16, "data.train_count": 2000, "global_batch_size": 64, "learning_rate": 0.2,
          "lr_base_batch_size": 128}


def args_of(settings):
    return [x for k, v in settings.items() for x in ("--set", f"{k}={v}")]


def fit():
    with Place() as place:
        rc, out, err = place.cli("fit", "quickstart", *args_of({**TINY, "devices.memory": "6MiB", "global_batch_size": 300}), "--json")
        check(rc == 0, f"fit: {rc} {err}")
        r = json.loads(out)
        rows = {row["micro_batch_size"]: row for row in r["rows"]}
        n = r["largest"]
        check(n > 1 and rows[n]["outcome"] == "ran" and rows[n]["memory_planned_bytes"] <= 6 << 20, f"largest: {rows.get(n)}")
        check(rows[n + 1]["outcome"] == "does not fit" and rows[n + 1]["memory_planned_bytes"] > 6 << 20, f"next: {rows.get(n + 1)}")
        check(all(rows[1 << i]["samples_per_sec"] > 0 for i in range(n.bit_length() - 1)), f"rates: {rows}")
        check(r["micro_batch_size"] <= n and r["global_batch_size"] == 300, f"split: {r}")
        check(r["gradient_accumulation_steps"] == -(-300 // n) and r["monotone"], f"split: {r}")
        rc, out, err = place.cli("fit", "quickstart", *args_of(TINY), "--max", "24")
        check(rc == 0 and "largest   24, the most asked about; --max raises it" in out, f"fit --max: {out}{err}")
        check(re.search(r"update    about \S+: 2 micro-batches a device \(\S+ s for 24, measured\), \S+ s for the rest; \S+ MiB a device", out),
              f"fit --max: {out}")
        rc, out, err = place.cli("fit", "quickstart", *args_of({**TINY, "devices.memory": "1MiB", "model.width": 64}))
        check(rc == 1 and "nothing fits" in out, f"nothing fits: {rc} {out}{err}")


def lrfind():
    with Place() as place:
        run = place.start("live", max_epochs=4000, global_batch_size=128, learning_rate=0.01, lr_base_batch_size=128,
                          warmup_epochs=0, lr_scheduler="constant")
        args = ["lrfind", "quickstart", *args_of(LEARNS), "--start", "1e-4", "--updates", "100", "--repeats", "2"]
        rc, out, err = place.cli(*args, "--plot", "a.png", "--jsonl", "a.jsonl")
        check(rc == 0, f"lrfind: {rc} {out}{err}")
        lines = [json.loads(x) for x in (place.path / "a.jsonl").read_text().splitlines()]
        result = lines[-1]
        check(result["unclear"] is None and result["repeats"] == 2 and result["updates"] == len(lines) - 1, f"result: {result}")
        check((place.path / "a.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n", "no PNG")
        rate = result["steepest"]
        # Linear from batch 128: the preset's key is twice the rate at 64.
        check(f"steepest fall  {rate:.3g}\n" in out and "learning_rate: " in out, f"lrfind: {out}")
        key = float(out.split("learning_rate: ")[1].split()[0])
        check(abs(key / (2 * rate) - 1) < 0.01, f"key {key}, rate {rate}")
        check("log10 rate" in out, "no chart")
        rc, again, err = place.cli(*args, "--plot", "a.svg", "--json", "--apply", run.dir)
        check(rc == 0, f"apply: {rc} {err}")
        lines = [json.loads(x) for x in again.splitlines()]
        check(lines[-2] == result, f"the same test gave {lines[-2]}, before {result}")
        check(lines[-1]["outcome"] == "applied", f"apply: {lines[-1]}")
        check("<svg" in (place.path / "a.svg").read_text()[:200], "no SVG")
        entry = run.journal()[-1]
        # The run's own batch is twice that of the test, and its rule linear.
        check(abs(float(entry["command"].split("=")[1]) / (2 * rate) - 1) < 0.01, f"journal: {entry['command']}")
        run.wait_update(entry["update"])
        used = [m for m in run.metrics() if m["update"] == entry["update"]][0]
        check(abs(used["learning_rate"] / (2 * rate) - 1) < 0.01, f"used: {used['learning_rate']}")
        # Unclear: the loss cannot fall where the rate never gets anywhere.
        args[-5:] = ["1e-9", "--end", "1e-7", "--updates", "30"]
        rc, out, err = place.cli(*args, "--apply", run.dir)
        check(rc == 1 and "unclear" in out and "nothing was proposed" in err, f"unclear: {rc} {out}{err}")
        check("║" not in out, f"a chart that goes on past its last rate: {out}")
        check(run.journal()[-1]["seq"] == entry["seq"], "an unclear rate was proposed")
        run.ctl("stop")
        run.end()


def interrupted():
    with Place() as place:
        for verb, more in (("lrfind", ["--updates", "1000", "--repeats", "5"]), ("fit", [])):
            trace = place.path / f"{verb}.err"
            with open(trace, "wb") as f:
                p = subprocess.Popen([BSTUNE, verb, "quickstart", *args_of({**TINY, "data.train_count": 20000}), *more], env=place.env,
                                     cwd=place.path, stdin=subprocess.DEVNULL, stdout=f, stderr=f)
            # Its threads are there once the trainer is open.
            until(lambda p=p: len(list((place_proc(p)).glob("task/*"))) > 2, f"{verb} at work")
            p.send_signal(signal.SIGINT)
            check(p.wait(timeout=60) == 1, f"{verb}, interrupted: {p.returncode} {trace.read_text()}")
            check("stopped" in trace.read_text(), f"{verb}: {trace.read_text()}")
            check(not list(place.path.glob("*.jsonl")), "a file of nothing")
        check(not list(place.path.glob("runs*")), "a search made a run")


# Steps of minutes in all, of milliseconds each.
LONG = {**TINY, "data.train_count": 20000}


def what_was_measured_is_there():
    """Into a pipe, line by line as it is measured; and, interrupted, what there was of it."""
    with Place() as place:
        for verb, more, row, sig, json_too in (
                ("fit", [], r"micro-batch \d+: (ran|[0-9.]+ samples/s)\n", signal.SIGINT, False),
                ("fit", ["--json"], r"micro-batch \d+: ran\n", signal.SIGTERM, True),
                ("lrfind", ["--updates", "1000", "--repeats", "5", "--jsonl", "a.jsonl"],
                 r"pass 1/5, update 5/1000, rate \S+, loss [0-9.]+\n", signal.SIGTERM, False),
                ("lrfind", ["--updates", "1000", "--repeats", "5", "--json"], r"pass 1/5, update 5/1000, ", signal.SIGINT, True)):
            said, out = place.path / "err", place.path / "out"
            with open(said, "wb") as e, open(out, "wb") as o:
                p = subprocess.Popen([BSTUNE, verb, "quickstart", *args_of(LONG), *more], env=place.env, cwd=place.path,
                                     stdin=subprocess.DEVNULL, stdout=o, stderr=e)

            def measured():
                check(p.poll() is None, f"{verb} ended: {said.read_text()}")
                return re.search(row, said.read_text())
            until(measured, f"a row of {verb}")
            p.send_signal(sig)
            rc, text = p.wait(timeout=60), out.read_text()
            check(rc == 1 and f"bstune {verb}: stopped before its end" in said.read_text(), f"{verb}: {rc} {said.read_text()}")
            told = len(re.findall(r"pass \d/5, update ", said.read_text()))
            if verb == "fit" and json_too:
                r = json.loads(text)
                check(r["cut"] and r["knee"] is None and any(x["outcome"] == "ran" for x in r["rows"]), text)
            elif verb == "fit":
                check(re.search(r"^ +\d+ +(ran|[0-9.]+) +[0-9.]+ MiB$", text, re.M), f"no row: {text}")
                check("cut       interrupted after " in text and "knee" not in text and "split" not in text, text)
            else:
                points = text.splitlines() if json_too else (place.path / "a.jsonl").read_text().splitlines()
                points = [json.loads(x) for x in points]
                check(points[-1]["cut"] and points[-1]["unclear"] == "interrupted" and points[-1]["steepest"] is None, f"{points[-1]}")
                check(len(points) - 1 == told == points[-1]["updates"] >= 5, f"{len(points)} points, {told} told")
                check(json_too or "cut            interrupted: " in text and "steepest" not in text, text)


def place_proc(p):
    return pathlib.Path(f"/proc/{p.pid}")


def bad():
    with Place() as place:
        for args, why in [
            (["fit", "quickstart", "--max", "0"], "--max is a whole number from 1 to 1048576, not 0"),
            (["fit", "quickstart", "--max", "x"], "not x"),
            (["fit"], "missing argument: PRESET"),
            (["fit", "quickstart", "--set", "bacth=1"], "unknown key 'bacth'"),
            (["lrfind", "nosuch"], "nosuch"),
            (["lrfind", "quickstart", "--start", "0"], "rates from 0 to 10"),
            (["lrfind", "quickstart", "--start", "abc"], "--start is a rate, not abc"),
            (["lrfind", "quickstart", "--end", "1e-7"], "at least 10 times"),
            (["lrfind", "quickstart", "--updates", "5"], "5 updates; 20 to 1000 are possible"),
            (["lrfind", "quickstart", "--repeats", "6"], "6 repeats; 1 to 5 are possible"),
            (["lrfind", "quickstart", "--plot", "a.gif"], "neither a .svg nor a .png"),
            (["lrfind", "quickstart", "--max", "5"], "an option of 'bstune fit'"),
        ]:
            rc, out, err = place.cli(*args)
            check(rc == 2 and why in err, f"{args}: {rc} {out}{err}")



def targets():
    """Where the result is to go is looked at before a test that takes minutes: this one would take hours."""
    with Place() as place:
        ended = place.start("ended", max_epochs=1, warmup_epochs=0).end()
        (place.path / "folder.svg").mkdir()
        (place.path / "kept.svg").write_text("kept")
        long = ["lrfind", "quickstart", *args_of({**TINY, "model.width": 64, "data.image_size": 64, "data.train_count": 60000}),
                "--updates", "1000", "--repeats", "5"]
        for args, want, why in [
            (["--plot", "no/such/a.svg"], 1, "no/such/a.svg"),
            (["--plot", "folder.svg"], 1, "folder.svg"),
            (["--jsonl", "no/such/a.jsonl"], 1, "no/such/a.jsonl"),
            (["--jsonl", "/proc/a.jsonl"], 1, "/proc/a.jsonl"),
            (["--apply", "nosuch"], 4, "nosuch"),
            (["--apply", ended.dir], 4, "that run has ended (done)"),
            (["--plot", "kept.svg", "--jsonl", "new.jsonl", "--apply", "nosuch"], 2, "kept.svg is there already; --force"),
            (["--jsonl", "kept.svg"], 2, "--jsonl: kept.svg is there already; --force replaces it"),
            (["--force", "--plot", "kept.svg", "--jsonl", "new.jsonl", "--apply", "nosuch"], 4, "nosuch"),
        ]:
            rc, out, err = place.cli(*long, *args)
            check(rc == want and why in err and not out, f"{args}: {rc} {out}{err}")
        check((place.path / "kept.svg").read_text() == "kept" and not (place.path / "new.jsonl").exists(), "a look has changed it")
        check(not [x for x in place.path.iterdir() if ".tmp-" in x.name], "a look left a file behind")


main(bad, fit, lrfind, targets, interrupted, what_was_measured_is_there)
