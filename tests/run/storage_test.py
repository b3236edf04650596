#!/usr/bin/env python3
"""Files that cannot be written, are damaged, or are not what they were."""
import os
import pathlib
import resource
import shutil
import subprocess

from bst import BSTUNE, TINY, Place, check, main, signal, until

LONG = {"max_epochs": 4000, "eval_interval": "never"}


def limit_files(r, n):
    resource.prlimit(r.process.pid, resource.RLIMIT_FSIZE, (n, resource.RLIM_INFINITY))


def a_full_disk_loses_nothing():
    """A limit on file sizes stands for the full disk: write() fails, at first after a part of a line."""
    with Place() as p:
        # A checkpoint's weights are many times the metrics of as many updates as may pass here.
        r = p.start("f", **LONG, model__width=16, checkpoint_interval="50st")
        r.wait_update(60)
        good = sorted(d.name for d in r.dir.glob("checkpoints/*-update-*"))
        metrics = r.dir / "metrics.jsonl"
        limit_files(r, metrics.stat().st_size + 1000)
        until(lambda: "BST-607" in r.said(), "a diagnostic for the metrics")
        until(lambda: "BST-601" in r.said(), "a diagnostic for the checkpoint")
        check(metrics.read_bytes().endswith(b"}\n"), "half a line is in the file")
        n = r.status()["update"]
        until(lambda: r.status()["update"] > n + 5, "training to go on")
        check(r.status()["note_code"] in ("BST-601", "BST-607"), "the status does not say it")
        check(sorted(d.name for d in r.dir.glob("checkpoints/*-update-*"))[-1] == good[-1], "the good checkpoint is gone")
        check(not list(r.dir.glob("checkpoints/*.tmp-*")), "an unfinished checkpoint stays behind")
        rc, reply = r.ctl("checkpoint")
        check(rc == 1 and reply["outcome"] == "refused", f"{reply}")
        until(lambda: "attempt 2, the last is of update" in r.said(), "the next attempt to be told of")
        limit_files(r, resource.RLIM_INFINITY)
        n = r.status()["update"]
        until(lambda: r.metrics()[-1]["update"] > n, "the metrics to go on")
        m = [x["update"] for x in r.metrics()]
        check(m == list(range(1, len(m) + 1)), "lines are missing")
        rc, reply = r.ctl("checkpoint")
        check(rc == 0, f"{reply}")
        until(lambda: "checkpoints are saved again" in r.said() and "metrics.jsonl is written again" in r.said(), "the end told of")
        check(r.status()["note_code"] == "", "the status still has the code")


def a_journal_that_cannot_be_written_refuses_changes():
    with Place() as p:
        # Little is said meanwhile: the limit below holds for what the trainer prints as well.
        quiet = {"max_epochs": 48, "checkpoint_interval": "never", "eval_interval": "never"}
        whole = p.start("whole", "--advise", "off", **quiet).end()
        r = p.start("j", "--advise", "off", **quiet)
        r.wait_update(3)
        journal = r.dir / "journal.jsonl"
        check(journal.stat().st_size == 0, "not empty")
        # The metrics are far larger already; they wait, and are written once there is room.
        limit_files(r, 10)
        rc, reply = r.ctl("batch", "+20%")
        check(rc == 1 and reply["outcome"] == "refused" and reply["code"] == "BST-312", f"{reply}")
        check(journal.stat().st_size == 0, "a part of an entry stays in the journal")
        limit_files(r, resource.RLIM_INFINITY)
        r.end()
        # Rolled back means that the update which used it never was.
        check(r.weights() == whole.weights(), "the refused change left a trace")
        check(r.series() == whole.series(), "the metrics show the refused change")


def checkpoints(r):
    whole = [d for d in r.dir.glob("checkpoints/*-update-*[0-9]") if ".tmp-" not in d.name]
    return sorted(whole, key=lambda d: int(d.name.split("-")[0]))


def killed_with_checkpoints(p, name):
    r = p.start(name, checkpoint_interval="10st", max_epochs=12)
    r.wait_update(45)
    r.send(signal.SIGKILL)
    r.process.wait()
    return r


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(bytes(data))


def a_damaged_checkpoint_is_passed_over():
    with Place() as p:
        whole = p.start("whole", max_epochs=12).end()
        for file in ("weights.safetensors", "optimizer.safetensors", "state.json", "MANIFEST"):
            r = killed_with_checkpoints(p, f"d-{file}")
            newest = checkpoints(r)[-1]
            flip(newest / file, (newest / file).stat().st_size // 2)
            r = p.start(r.name, resume=True).end()
            check(newest.with_name(newest.name + ".bad").exists(), f"{file}: not set aside")
            check(any(m.get("code") == "BST-602" for m in r.metrics("note")), f"{file}: not said")
            check(r.weights() == whole.weights() and r.series() == whole.series(), f"{file}: another end")


def a_run_does_not_start_over_when_none_loads():
    with Place() as p:
        r = killed_with_checkpoints(p, "n")
        for c in checkpoints(r):
            os.truncate(c / "weights.safetensors", 1000)
        again = p.start("n", resume=True)
        check(again.process.wait(60) == 1 and "BST-603" in again.said(), again.said())
        check(len(list(r.dir.glob("checkpoints/*.bad"))) >= 2, "removed instead of set aside")
        # Nor the second time.
        again = p.start("n", resume=True)
        check(again.process.wait(60) == 1, "the second attempt started over")


def with_changes(p, name):
    r = p.start(name, max_epochs=400)
    r.wait_update(2)
    for command in ("batch +20%", "lr x0.9", "clip =3"):
        check(r.ctl(*command.split())[0] == 0, command)
    r.send(signal.SIGTERM)
    return r.end(75)


def a_torn_journal_is_mended():
    with Place() as p:
        r = with_changes(p, "t")
        whole = (r.dir / "journal.jsonl").read_bytes()
        shutil.rmtree(r.dir / "checkpoints")
        lines = whole.split(b"\n")
        (r.dir / "journal.jsonl").write_bytes(b"\n".join(lines[:2]) + b"\n" + lines[2][:-7])
        again = p.start("t", resume=True)
        until(lambda: (s := again.status()).get("phase") == "training" and s["update"] > 30, "30 updates")
        again.ctl("stop")
        again.end()
        check("BST-605" in again.said(), again.said())
        check((r.dir / "journal.jsonl.torn").read_bytes() == lines[2][:-7], "what was cut off is not kept")
        check((r.dir / "journal.jsonl").read_bytes().startswith(b"\n".join(lines[:2]) + b"\n{"), "whole lines were lost")
        sizes = {m["global_batch_size"] for m in again.metrics()}
        check(sizes == {32, 38}, f"{sizes}")


def a_damaged_journal_is_refused():
    with Place() as p:
        r = with_changes(p, "m")
        path = r.dir / "journal.jsonl"
        before = path.read_bytes()
        flip(path, 40)
        again = p.start("m", resume=True)
        check(again.process.wait(60) == 1 and "BST-606" in again.said(), again.said())
        check(len(path.read_bytes()) == len(before), "the damaged journal was cut")


def links_are_not_followed():
    with Place() as p:
        victim = p.path / "victim"
        victim.write_text("precious")
        for name in ("metrics.jsonl", "journal.jsonl", "lock"):
            d = p.path / f"l-{name}"
            d.mkdir()
            (d / name).symlink_to(victim)
            r = p.start(f"l-{name}", max_epochs=2)
            rc = r.process.wait(60)
            check(rc in (1, 2) and victim.read_text() == "precious", f"{name}: {rc} {r.said()}")
        d = p.path / "l-log"
        d.mkdir()
        for name in ("run.json", "preset.yaml", "status.json"):
            (d / name).symlink_to(victim)
        p.start("l-log", max_epochs=2).end()
        check(victim.read_text() == "precious", "a link was followed")


def a_folder_that_cannot_be():
    with Place() as p:
        (p.path / "file").write_text("")
        for d in ("file", "file/x", "/proc/nosuch"):
            rc, _, err = p.cli("run", "quickstart", "--headless", "--run-dir", d)
            check(rc == 1 and d.split("/x")[0] in err, f"{d}: {rc} {err}")


def sets(**more):
    both = {**TINY, **{k.replace("__", "."): v for k, v in more.items()}}
    return [x for k, v in both.items() for x in ("--set", f"{k}={v}")]


def a_start_that_fails_leaves_nothing():
    with Place() as p:
        other = p.start("other", max_epochs=1, model__width=8, warmup_epochs=0).end().dir / "weights.safetensors"
        (p.path / "torn").write_bytes(other.read_bytes()[:1000])
        own = p.path / "own"
        own.mkdir()
        (own / "log").write_text("mine")
        before = sorted(x.name for x in p.path.iterdir())
        rows = (
            (("--init", "nosuch.safetensors"), "nosuch.safetensors", True), (("--init", "torn"), "torn", True),
            (("--init", str(other)), "BST-405", True), (("--init", str(p.path)), str(p.path), True),
            (("--set", "data.format=imagefolder", "--set", "data.path=nosuch"), "nosuch", True),
            (("--set", "data.format=cifar10", "--set", "data.path=nosuch"), "nosuch", True),
            (("--log-every", "0"), "--log-every", False), (("--refresh", "0.1"), "--refresh is 0.25 to 60", False),
            (("--run-dir", ""), "not empty: --run-dir", False), (("--init", ""), "not empty: --init", False),
        )
        for args, words, started in rows:
            rc, _, err = p.cli("run", "quickstart", "--headless", *sets(), *args)
            check(rc in (1, 2) and words in err and ("nothing is left" in err) == started, f"{args}: {rc} {err}")
            check(sorted(x.name for x in p.path.iterdir()) == before, f"{args} left {list(p.path.iterdir())}")
        # Folders on the way go too, and what was there before stays.
        rc, _, err = p.cli("run", "quickstart", "--headless", *sets(), "--init", "torn", "--run-dir", "a/b/c")
        check(rc and sorted(x.name for x in p.path.iterdir()) == before, f"a/b/c stays: {err}")
        rc, _, err = p.cli("run", "quickstart", "--headless", *sets(), "--init", "torn", "--run-dir", "own")
        check(rc and [x.name for x in own.iterdir()] == ["log"] and (own / "log").read_text() == "mine", f"{list(own.iterdir())}")
        rc, _, err = p.cli("run", "--headless", "--resume", "--run-dir", "typo")
        check(rc == 2 and not (p.path / "typo").exists(), f"{rc} {err}")
        # A run that has trained keeps all it has, and so does one that cannot be resumed for now.
        r = p.start("k", max_epochs=400, checkpoint_interval="10st")
        r.wait_update(25)
        r.send(signal.SIGKILL)
        r.process.wait()
        kept = sorted(x.name for x in r.dir.iterdir())
        (r.dir / "preset.yaml").write_text((r.dir / "preset.yaml").read_text().replace("train_count: 640", "train_count: 641")
                                           .replace("width: 4", "width: 8"))
        rc, _, err = p.cli("run", "--headless", "--resume", "--run-dir", r.dir)
        check(rc and "nothing is left" not in err and set(kept) <= {x.name for x in r.dir.iterdir()}, f"{rc} {err}")


def damaged_run_json_is_named():
    with Place() as p:
        rc, _, err = p.cli("run", "quickstart", "--headless", *sets(max_epochs=1, warmup_epochs=0))
        check(rc == 0, err)
        info = p.path / "runs/quickstart-1/run.json"
        good = info.read_bytes()
        for bad in (good[:40], b"", b"[]", b"{}", b"\0" * 100):
            info.write_bytes(bad)
            for verb in ("status", "stop", "attach"):
                for which in ("quickstart-1", "runs/quickstart-1"):
                    rc, _, err = p.cli(verb, which)
                    check(rc == 1 and "run.json: damaged" in err, f"{verb} {which}: {rc} {err}")
            rc, out, _ = p.cli("list")
            check(rc == 0 and "quickstart-1" in out and "damaged" in out, out)
        rc, _, err = p.cli("run", "--headless", "--resume", "--run-dir", "runs/quickstart-1")
        check(rc == 0 and p.cli("status", "quickstart-1")[0] == 0, f"not mended: {rc} {err}")


def a_full_output_is_said():
    with Place() as p:
        for args in (["preset", "list"], ["--help"], ["list", "--json"]):
            with open("/dev/full", "w") as full:
                done = subprocess.run([BSTUNE, *args], env=p.env, cwd=p.path, stdout=full, stderr=subprocess.PIPE,
                                      encoding="utf-8", timeout=60)
            check(done.returncode == 1 and "standard output: No space left" in done.stderr, f"{args}: {done}")


def secrets_stay_outside():
    with Place() as p:
        p.env["TOKEN"] = "sesame-open-4711"
        r = p.start("s").end()
        for f in pathlib.Path(r.dir).rglob("*"):
            check(not f.is_file() or b"sesame-open-4711" not in f.read_bytes(), f"{f} holds the environment")
        check(r.dir.stat().st_mode & 0o77 == 0, "the folder is open to others")


if __name__ == "__main__":
    main(a_full_disk_loses_nothing, a_journal_that_cannot_be_written_refuses_changes, a_damaged_checkpoint_is_passed_over,
         a_run_does_not_start_over_when_none_loads, a_torn_journal_is_mended, a_damaged_journal_is_refused,
         links_are_not_followed, a_folder_that_cannot_be, a_start_that_fails_leaves_nothing,
         damaged_run_json_is_named, a_full_output_is_said, secrets_stay_outside)
