#!/usr/bin/env python3
"""`bstune export`: what other programs read is what the run recorded."""
import csv
import io
import json
import math
import os
import pathlib
import re
import resource
import struct
import subprocess

from bst import BSTUNE, TINY, Place, check, main, until

LONG = {"max_epochs": 400, "checkpoint_interval": "never"}
TAGS = {"train/loss": "loss", "train/learning_rate": "learning_rate", "train/grad_norm": "grad_norm",
        "train/global_batch_size": "global_batch_size"}
OF_TOKENS = ("tokens", "tokens_per_sec")
# Rows of unlike lengths, so that an update's tokens are no fixed multiple of its samples.
PADDED = {"model.name": "transformer", "data.format": "reverse", "data.length": 14, "model.width": 16, "model.layers": 1,
          "model.heads": 2, "optimizer": "adamw", "learning_rate": 0.003, "lr_scaling": "sqrt", "lr_base_batch_size": 32,
          "max_epochs": 2, "data.eval_count": 32, "checkpoint_interval": "never"}


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def fields(message):
    """(number, value) of a protocol buffer; bytes, ints and raw fixed fields."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(message):
        key = varint()
        if key & 7 == 0:
            value = varint()
        else:
            size = {1: 8, 2: None, 5: 4}[key & 7]
            size = varint() if size is None else size
            value = message[at:at + size]
            check(len(value) == size, "a field is cut off")
            at += size
        yield key >> 3, value


def records(data):
    at = 0
    while at < len(data):
        head = data[at:at + 8]
        size, = struct.unpack("<Q", head)
        check(masked(head) == struct.unpack("<I", data[at + 8:at + 12])[0], "the length's CRC")
        body = data[at + 12:at + 12 + size]
        check(masked(body) == struct.unpack("<I", data[at + 12 + size:at + 16 + size])[0], "the record's CRC")
        yield body
        at += 16 + size


def read_events(path):
    """{tag: [(step, value)]}, where a session start drops what was there from its step on."""
    found = {}
    for i, body in enumerate(records(path.read_bytes())):
        e = dict(fields(body))
        if i == 0:
            check(e.get(3) == b"brain.Event:2", "no version")
        elif 7 in e:
            found = {t: [x for x in v if x[0] < e[2]] for t, v in found.items()}
        else:
            for _, raw in fields(e[5]):
                value = dict(fields(raw))
                tensor = dict(fields(value[8])) if 8 in value else None
                x = tensor[8].decode() if tensor else struct.unpack("<f", value[2])[0]
                found.setdefault(value[1].decode(), []).append((e[2], x))
    return found


def single(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def same_events(run, found, tags=TAGS):
    updates, evals = run.metrics(), run.metrics("eval")
    for tag, key in tags.items():
        want = [(m["samples"], single(m[key])) for m in updates]
        check(found.get(tag) == want, f"{tag}: {found.get(tag, [])[-3:]}, not {want[-3:]}")
    check(found.get("eval/accuracy_top1", []) == [(m["samples"], single(m["accuracy_top1"])) for m in evals], "accuracy")


def own_reader(folder):
    """The same by TensorBoard's own reader, where there is one; else None."""
    python = os.environ.get("BSTUNE_TENSORBOARD_PYTHON")
    if not python:
        return None
    reader = pathlib.Path(__file__).with_name("tensorboard_read.py")
    own = json.loads(subprocess.run([python, reader, folder], check=True, capture_output=True).stdout)
    return {t: [tuple(x) for x in v] for t, v in own.items()}


def stopped_run(p, name="r"):
    r = p.start(name, **LONG)
    r.wait_update(25)
    rc, reply = r.ctl("batch", "+20%")
    check(rc == 0, f"{reply}")
    r.wait_update(reply["effective_update"] + 25)
    r.send(15)
    return r.end(75)


def csv_is_the_metrics():
    with Place() as p:
        r = stopped_run(p)
        rc, out, err = p.cli("export", r.dir)
        check(rc == 0, err)
        rows = list(csv.DictReader(io.StringIO(out, newline="")))
        updates = [x for x in rows if x["type"] == "update"]
        check(len(updates) == len(r.metrics()), "another number of updates")
        for row, m in zip(updates, r.metrics()):
            for key in ("update", "samples", "loss", "learning_rate", "grad_norm", "global_batch_size"):
                check(float(row[key]) == m[key], f"{key}: {row[key]}, not {m[key]}")
            check(row["eval_accuracy_top1"] == "", "an update with an accuracy")
            check(all(row[key] == "" for key in OF_TOKENS), f"images with tokens: {row}")
        evals = [x for x in rows if x["type"] == "eval"]
        check([float(x["elapsed"]) for x in evals] == [m["elapsed"] for m in r.metrics("eval")], "the time of evaluations")
        check([float(x["eval_accuracy_top1"]) for x in evals] == [m["accuracy_top1"] for m in r.metrics("eval")], "evals")
        order = [float(x["samples"]) for x in rows]
        check(order == sorted(order), "not in order")
        rc, out2, err = p.cli("export", r.dir, "--output", p.path / "t.csv")
        check(rc == 0 and out2 == "" and (p.path / "t.csv").read_bytes().decode() == out.replace("\n", "\r\n"),
              "a file differs from the standard output")
        (p.path / "t.csv").write_text("of before\n")
        for args in (("export", r.dir, "-o", "t.csv"), ("journal", r.dir, "--export-preset", "t.csv")):
            rc, out2, err = p.cli(*args)
            check(rc == 2 and "t.csv is there already; --force replaces it" in err, f"{args}: {rc} {err}")
            check((p.path / "t.csv").read_text() == "of before\n", f"{args}: what was there is gone")
        rc, out2, err = p.cli("export", r.dir, "-o", "t.csv", "--force")
        check(rc == 0 and (p.path / "t.csv").read_bytes().decode() == out.replace("\n", "\r\n"), f"{rc} {err}")
        rc, out2, err = p.cli("export", r.dir, "-o", "/dev/null")
        check(rc == 0, f"/dev/null: {rc} {err}")
        rc, out2, err = p.cli("journal", r.dir, "--export-preset", "t.csv", "--force")
        check(rc == 0 and "changes:" in (p.path / "t.csv").read_text(), f"{rc} {err}")


def tensorboard_reads_what_was_recorded():
    with Place() as p:
        r = stopped_run(p)
        rc, out, err = p.cli("export", r.dir, "--format", "tensorboard")
        check(rc == 0, err)
        path = pathlib.Path(out.strip())
        check(path.parent == r.dir / "tensorboard", f"{path}")
        found = read_events(path)
        same_events(r, found)
        check(any("batch 32 → 38" in text for _, text in found["changes"]), f"{found.get('changes')}")
        own = own_reader(path.parent)
        if own:
            same_events(r, own)
            check(own["changes"] == found["changes"], "TensorBoard reads other changes")


def tokens_are_exported():
    """Of sequences: what an update used of them and how fast, and the evaluation's perplexity."""
    with Place() as p:
        r = p.start("t", **PADDED).end()
        updates, evals = r.metrics(), r.metrics("eval")
        check(len({m["tokens"] / m["global_batch_size"] for m in updates}) > 3 and evals, "the rows are all alike")
        rc, out, err = p.cli("export", r.dir)
        check(rc == 0, err)
        rows = list(csv.DictReader(io.StringIO(out, newline="")))
        for kind, want, keys, front in (("update", updates, OF_TOKENS, ""), ("eval", evals, ("perplexity",), "eval_")):
            for key in keys:
                got = [float(x[front + key]) for x in rows if x["type"] == kind]
                check(got == [m[key] for m in want], f"{key}: {got[-3:]}, not {[m[key] for m in want][-3:]}")
            check(all(x[front + key] == "" for x in rows if x["type"] != kind for key in keys), f"{keys} in another row")
        rc, out, err = p.cli("export", r.dir, "-f", "tensorboard")
        check(rc == 0, err)
        path = pathlib.Path(out.strip())
        tags = {**TAGS, **{f"train/{key}": key for key in OF_TOKENS}}

        def as_recorded(found):
            same_events(r, found, tags)
            want = [(m["samples"], single(m["perplexity"])) for m in evals]
            check(found.get("eval/perplexity") == want, f"{found.get('eval/perplexity')}, not {want}")
        as_recorded(read_events(path))
        own = own_reader(path.parent)
        if own:
            as_recorded(own)


def what_is_not_finite_is_not_what_is_not_there():
    """The loss of a skipped update is nan in a table; the tokens of an image are none."""
    with Place() as p:
        r = stopped_run(p)
        path = r.dir / "metrics.jsonl"
        lines = [json.loads(x) for x in path.read_text().splitlines()]
        bad = next(x for x in lines[5:] if x["type"] == "update")
        bad.update(loss=None, grad_norm=None, nonfinite="nan")
        path.write_text("".join(json.dumps(x, separators=(",", ":")) + "\n" for x in lines))
        rc, out, err = p.cli("export", r.dir)
        row = next(x for x in csv.DictReader(io.StringIO(out, newline="")) if x["update"] == str(bad["update"]))
        check(row["loss"] == row["grad_norm"] == "nan" and all(row[k] == "" for k in OF_TOKENS), f"{row}")
        rc, out, err = p.cli("export", r.dir, "-f", "tensorboard")
        found = read_events(pathlib.Path(out.strip()))
        check(any(math.isnan(x) for _, x in found["train/loss"]), "the loss is left out")
        check("train/tokens" not in found and "train/tokens_per_sec" not in found, "tokens of images")


def tensorboard_follows_and_goes_back():
    with Place() as p:
        r = p.start("r", **LONG)
        r.wait_update(5)
        folder = p.path / "tb"
        follower = subprocess.Popen([BSTUNE, "export", str(r.dir), "-f", "tensorboard", "-F", "-o", str(folder)],
                                    env=p.env, cwd=p.path, stdout=subprocess.DEVNULL)
        try:
            rc, reply = r.ctl("batch", "+20%")
            check(rc == 0, f"{reply}")
            r.wait_update(reply["effective_update"] + 10)
            until(lambda: list(folder.glob("events*")), "the event file")
            path, = folder.glob("events*")
            until(lambda: path.stat().st_size > 4096, "some events")
            rc, reply = r.ctl("undo", "--rewind")
            check(rc == 0, f"{reply}")
            r.wait_update(r.metrics()[-1]["update"] + 10)
            r.send(15)
            r.end(75)
            check(follower.wait(timeout=30) == 0, "the follower failed")
            same_events(r, read_events(path))
        finally:
            if follower.poll() is None:
                follower.kill()
                follower.wait()


def prometheus_is_the_status():
    line = re.compile(r'^bstune_(\w+)\{run="([^"]*)"((?:,\w+="[^"]*")*)\} (\S+)$')
    with Place() as p:
        r = stopped_run(p)
        rc, out, err = p.cli("export", r.dir, "--format", "prometheus")
        check(rc == 0, err)
        values, types = {}, {}
        for text in out.splitlines():
            if text.startswith("# TYPE "):
                name, kind = text.split()[2:]
                check(name not in types, f"{name} twice")
                types[name] = kind
            elif not text.startswith("#"):
                m = line.match(text)
                check(m and "bstune_" + m[1] in types, f"not a sample: {text}")
                values[m[1] + m[3]] = float(m[4])
        s = r.status()
        check(values["up"] == 0 and values["samples_total"] == s["samples"], f"{values}")
        check(values["global_batch_size"] == s["global_batch"] and math.isclose(values["loss"], s["loss"]), f"{values}")
        check(values['device_memory_planned_bytes,device="0"'] > 1e6, f"{values}")


def what_cannot_be_read_is_said():
    with Place() as p:
        r = stopped_run(p)
        path = r.dir / "metrics.jsonl"
        lines = path.read_bytes().splitlines(True)
        rc, whole, err = p.cli("export", r.dir)
        check(rc == 0 and not err, err)
        no = [i for i, x in enumerate(lines) if b'"type":"update"' in x]
        updates = len(no)
        for n, bad in enumerate((b"garbage\n", b"{}\n", b'{"type":"update","loss":1}\n', b"x" * 200000 + b"\n")):
            lines[no[4 + n]] = bad
            path.write_bytes(b"".join(lines))
            for args in ((), ("-f", "tensorboard", "-o", p.path / "tb")):
                rc, out, err = p.cli("export", r.dir, *args)
                check(rc == 0 and f"{path}:{no[4] + 1}: " in err and f" {n + 1} line" in err, f"{n}: {rc} {err}")
            rc, out, err = p.cli("export", r.dir)
            check(out.count("\nupdate,") == updates - n - 1, f"{n}: not {updates - n - 1} updates")
        # Cut off in the middle, as by a full disk, and no trainer to write the rest.
        path.write_bytes(b"".join(lines)[:-20])
        rc, out, err = p.cli("export", r.dir)
        check(rc == 0 and f"{path}:{no[4] + 1}: " in err and " 5 lines" in err, err)
        (r.dir / "journal.jsonl").write_bytes((r.dir / "journal.jsonl").read_bytes() + b"{\n")
        rc, out, err = p.cli("export", r.dir)
        check("journal.jsonl:2: " in err and " 1 line " in err, err)


def nothing_to_export_is_said():
    with Place() as p:
        r = stopped_run(p)
        metrics, journal = r.dir / "metrics.jsonl", r.dir / "journal.jsonl"
        kept = metrics.read_bytes()
        for made, word in ((b"", "no update and no evaluation is in it"), (b"garbage\n" * 3, "3 lines that cannot be read"),
                           (None, "is not there, so there is nothing to export")):
            metrics.unlink()
            if made is not None:
                metrics.write_bytes(made)
            else:
                word = f"{metrics}: {word}"
            (p.path / "t.csv").write_text("of before\n")
            for args in ((), ("-o", "t.csv", "--force"), ("-f", "tensorboard", "-o", "tb"), ("-f", "tensorboard", "-F", "-o", "tb")):
                rc, out, err = p.cli("export", r.dir, *args)
                check(rc == 1 and not out and word in err and err.count("is not there") <= 1, f"{made} {args}: {rc} {out}{err}")
            check((p.path / "t.csv").read_text() == "of before\n", "what was there is gone")
            check(not list(p.path.glob("tb/*")), "an empty event file")
            metrics.write_bytes(kept)
        # Without its changes it is exported, and that is said.
        journal.unlink()
        rc, out, err = p.cli("export", r.dir)
        check(rc == 0 and "\nupdate," in out and f"{journal}: is not there" in err, f"{rc} {err}")
        for args in ((), ("--json",), ("--export-preset", "-")):
            rc, out, err = p.cli("journal", r.dir, *args)
            check(rc == 1 and not out and f"{journal}: is not there" in err, f"{args}: {rc} {out}{err}")


def a_limit_on_files_is_a_write_error():
    def small():
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    with Place() as p:
        r = stopped_run(p)
        sweep = p.path / "w"
        sets = [x for k, v in TINY.items() if k not in ("global_batch_size", "max_epochs") for x in ("--set", f"{k}={v}")]
        rc, out, err = p.cli("sweep", "quickstart", *sets, "--batch", "64", "--epochs", "1", "--set", "warmup_epochs=0",
                             "--run-dir", sweep)
        check(rc == 0, err)
        for args, file in ((("export", r.dir, "-o", "t.csv"), "t.csv"), (("export", r.dir, "-f", "tensorboard"), "events.out"),
                           (("export", r.dir, "-f", "prometheus", "-o", "t.prom"), "t.prom"), (("report", sweep), str(sweep))):
            done = subprocess.run([BSTUNE, *map(str, args)], env=p.env, cwd=p.path, capture_output=True, encoding="utf-8",
                                  timeout=120, preexec_fn=small)
            check(done.returncode == 1 and file in done.stderr and "File too large" in done.stderr, f"{args}: {done}")
        with open(p.path / "out", "wb") as out:
            done = subprocess.run([BSTUNE, "export", str(r.dir)], env=p.env, cwd=p.path, stdout=out, stderr=subprocess.PIPE,
                                  timeout=120, preexec_fn=small)
        check(done.returncode == 1 and b"standard output: File too large" in done.stderr, f"{done}")


def usage():
    with Place() as p:
        for args, word in ((("--format", "xml"), "csv"), (("--follow",), "tensorboard"),
                           (("-f", "prometheus", "-F"), "--output")):
            rc, _, err = p.cli("export", "nothing", *args)
            check(rc == 2 and word in err, f"{rc} {err}")
        rc, _, err = p.cli("export", p.path / "nothing")
        check(rc == 4, f"{rc} {err}")


if __name__ == "__main__":
    main(csv_is_the_metrics, tensorboard_reads_what_was_recorded, tokens_are_exported,
         what_is_not_finite_is_not_what_is_not_there, tensorboard_follows_and_goes_back,
         prometheus_is_the_status, what_cannot_be_read_is_said, nothing_to_export_is_said, a_limit_on_files_is_a_write_error, usage)
