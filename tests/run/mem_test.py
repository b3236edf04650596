#!/usr/bin/env python3
"""What `mem` plans against what runs take; recomputation on demand in a run that is changed while it lives."""
import json

from bst import TINY, Place, check, main, until

LONG = {"max_epochs": 4000, "eval_interval": "never", "checkpoint_interval": "never"}


def mem(p, *args, **settings):
    sets = {**TINY, **{k.replace("__", "."): v for k, v in settings.items()}}
    flat = [x for k, v in sets.items() for x in ("--set", f"{k}={v}")]
    rc, out, err = p.cli("mem", "quickstart", "--json", *flat, *args)
    check(rc == 0, f"mem gave {rc}: {err}")
    return json.loads(out)


def devices_of(r):
    return r.status()["devices"]


def planned_is_what_a_run_holds():
    with Place() as p:
        for n, recompute in ((1, "none"), (2, "none"), (1, "{every: 1}"), (2, "{layers: [\"*bn?\"]}")):
            row = mem(p, "--batch", 32, devices__count=n, recompute=recompute)["planned"][0]
            r = p.start(f"r{n}{len(recompute)}", **LONG, devices__count=n, recompute=recompute)
            r.wait_update(2)
            for d in devices_of(r):
                check(d["memory_planned"] == row["total"], f"{d} is not {row}")
                check(d["memory_used"] == row["total"], f"{d} is not {row}")
            r.ctl("stop")
            r.end()
            parts = ("parameters", "gradients", "optimizer", "rewind", "activations", "recomputation", "data", "workspace")
            check(sum(row[k] for k in parts) == row["total"], f"{row}")


def a_larger_batch_is_recomputed_and_back():
    """In 1 % less than a doubled batch needs; the loss is that of a run with room for all."""
    with Place() as p:
        rows = {r["global_batch_size"]: r for r in mem(p, "--batch", "32,64")["planned"]}
        room = rows[64]["total"] - rows[64]["activations"] // 10
        check(room > rows[32]["total"], f"{rows}")
        runs = [p.start("auto", **LONG, recompute="auto", devices__memory=room),
                p.start("plain", **LONG)]
        for r in runs:
            r.wait_update(1)
            rc, _ = r.ctl("pause")
            check(rc == 0, "not paused")
            r.wait_phase("paused")
        check("recompute_work" not in devices_of(runs[0])[0] or devices_of(runs[0])[0]["recompute_work"] is None,
              f"{devices_of(runs[0])}")
        rc, reply = runs[0].ctl("batch", "=64")
        check(rc == 0, f"{reply}")
        change = [c for c in reply["changes"] if c["key"] == "recompute"]
        check(change and change[0]["old"] == "none" and "instructions" in change[0]["new"], f"{reply}")
        runs[0].ctl("resume")
        until(lambda: runs[0].metrics()[-1]["global_batch_size"] == 64, "the batch")
        d = devices_of(runs[0])[0]
        check(d["recompute_work"] > 0 and d["memory_used"] <= room, f"{d}")
        split = runs[0].metrics()[-1]
        check(split["micro_batch_size"] == 64 and split["gradient_accumulation_steps"] == 1, f"{split}")
        rc, reply = runs[0].ctl("batch", "=32")
        check(rc == 0 and [c["new"] for c in reply["changes"] if c["key"] == "recompute"] == ["none"], f"{reply}")
        for r in runs:
            r.ctl("stop")
            r.end()


def what_does_not_fit_is_accumulated_as_a_run_does():
    """In the memory of a batch of 40: what mem says of larger ones is what a run makes of them."""
    with Place() as p:
        room = mem(p, "--batch", 40)["planned"][0]["total"]
        report = mem(p, "--batch", "32,128,301", "--capacity", room)
        rows = {r["global_batch_size"]: r for r in report["planned"]}
        check(rows[32]["fits"] and "accumulated" not in rows[32], f"{rows[32]}")
        for batch in (128, 301):
            said = rows[batch]["accumulated"]
            check(not rows[batch]["fits"] and said["total"] <= room, f"{rows[batch]} in {room}")
            r = p.start(f"r{batch}", max_steps=2, warmup_epochs=0, eval_interval="never", global_batch_size=batch,
                        devices__memory=room).end()
            m = r.metrics()[0]
            check((m["micro_batch_size"], m["gradient_accumulation_steps"]) ==
                  (said["micro_batch_size"], said["gradient_accumulation_steps"]), f"{m}, not {said}")
        # Where the preset fixes their number there is nothing to be said.
        fixed = mem(p, "--batch", 128, "--capacity", room, gradient_accumulation_steps=1)["planned"][0]
        check(not fixed["fits"] and "accumulated" not in fixed, f"{fixed}")
        rc, out, err = p.cli("mem", "quickstart", *[x for k, v in TINY.items() for x in ("--set", f"{k}={v}")], "--batch", "128",
                             "--capacity", room)
        s = rows[128]["accumulated"]
        check(f"128 as {s['gradient_accumulation_steps']}x{s['micro_batch_size']} (" in " ".join(out.split()), out)


def numbers_are_the_same():
    with Place() as p:
        runs = [p.start(n, max_steps=6, recompute=n) for n in ("none", "auto", "{every: 1}")]
        for r in runs:
            r.end()
        check(len({r.weights() for r in runs}) == 1, "the weights differ")
        check(runs[0].series() == runs[1].series() == runs[2].series(), "the numbers on the way differ")


def what_it_cannot_read_it_says():
    with Place() as p:
        for args in (["--batch", "64,,128"], ["--batch", "many"], ["--capacity", "big"], ["--recompute", "maybe"],
                     ["--precision", "fp12"], ["--recompute", "layers:nothing*"], ["--devices", "0"]):
            rc, out, err = p.cli("mem", "quickstart", *args)
            check(rc == 2 and not out and err, f"{args}: {rc} {out} {err}")
        rc, out, err = p.cli("mem", "no-such-preset")
        check(rc == 2, f"{rc} {err}")
        rc, out, err = p.cli("mem", "resnet50-1024-layerwise", "--batch", "8", "--recompute", "none,layers:*bn?",
                             "--set", "devices.backend=ref", "--capacity", "80GiB")
        check(rc == 0 and "the data are not here" in out and "largest in 80.00 GiB" in out, f"{rc} {out} {err}")


def a_gpu_that_is_not_here():
    with Place() as p:
        p.env["XDG_CACHE_HOME"] = str(p.path)
        rc, out, err = p.cli("mem", "resnet50-256", "--device", "a1000")
        check(rc == 2 and "a100, b200, h100" in err, f"{rc} {err}")
        ask = ("mem", "resnet50-256", "--device", "h100", "--batch", "32", "--precision", "tf32", "--json")
        rc, out, err = p.cli(*ask)
        if rc == 1 and "takes cuDNN" in err:
            print(f"no cuDNN: {err.strip()}")
            return
        check(rc == 0, f"{rc} {err}")
        r = json.loads(out)
        row = r["planned"][0]
        parts = ("parameters", "gradients", "optimizer", "rewind", "activations", "recomputation", "data", "workspace")
        check(sum(row[k] for k in parts) == row["total"], f"{row}")
        check(r["backend"] == "cuda" and "H100" in r["device"] and row["precision"] == "tf32", f"{r}")
        check(r["measured"]["process_resident"] is None, f"{r['measured']}")
        kept = list(p.path.glob("bstune/plans-*.txt"))
        check(len(kept) == 1, f"{kept}")
        # Answers that are damaged are asked again, and the plan is the same.
        text = kept[0].read_text()
        kept[0].write_text(text.replace(";", "", 3)[:len(text) // 2])
        check(p.cli(*ask)[1] == out, "another plan from a damaged file")
        rc, out, err = p.cli(*ask, "--device", "a100")
        check(rc == 2 and "given twice" in err, f"{rc} {err}")
        rc, out, err = p.cli("mem", "resnet50-256", "--device", "h100,t4", *ask[4:])
        both = [json.loads(line) for line in out.splitlines()]
        check(rc == 0 and len(both) == 2 and both[0] == r and "T4" in both[1]["device"], f"{rc} {err} {out}")
        rc, out, err = p.cli("mem", "resnet50-256", "--device", "h100,", "--batch", "32")
        check(rc == 2 and "a100,h100" in err, f"{rc} {err}")
        rc, out, err = p.cli(*ask[:6], "--set", "precision=tf32", "--json")
        check(rc == 0 and json.loads(out)["planned"][0]["total"] == row["total"], f"the preset's own precision: {rc} {err}")
        rc, out, err = p.cli("mem", "resnet50-256", "--device", "h100", "--precision", "fp12")
        check(rc == 2 and "fp12" in err, f"{rc} {err}")


def a_doctor_looks():
    with Place() as p:
        rc, out, err = p.cli("doctor", "--json")
        r = json.loads(out)
        states = {f["name"]: f["state"] for f in r["findings"]}
        check(rc == (3 if r["missing"] else 0), f"{rc} {r}")
        check(list(states.values()).count("missing") == r["missing"], f"{r}")
        check(states["processor"] == states["memory"] == states["oneDNN"] == "ok", f"{states}")
        check(states["terminal"] == "none" and {"driver", "cuDNN", "NCCL", "data"} <= set(states), f"{states}")
        rc, out, err = p.cli("doctor", "resnet50-256")
        check(rc == 3 and "missing" in out and "imagefolder" in out, f"{rc} {out} {err}")
        rc, out, err = p.cli("doctor", "resnet50-256", "--set", "data.format=shapes", "--set", "data.path=", "--json")
        states = {f["name"]: f["state"] for f in json.loads(out)["findings"]}
        check(states["data"] == "ok", f"{rc} {out} {err}")
        rc, out, err = p.cli("doctor", "--set", "no_such_key=1")
        check(rc == 2 and "no_such_key" in err, f"{rc} {out} {err}")
        rc, out, err = p.cli("doctor", "no-such-preset")
        check(rc == 2 and not out, f"{rc} {out} {err}")


def it_fits_a_terminal():
    """80 columns, whatever is asked; all of it in one table where there is room."""
    with Place() as p:
        args = ("mem", "quickstart", *[x for k, v in TINY.items() for x in ("--set", f"{k}={v}")], "--batch", "1,32,16777216",
                "--recompute", "none,auto,every:1,layers:*conv?")
        rc, out, err = p.cli(*args)
        rows = [x.split() for x in out.splitlines()]
        check(rc == 0 and max(map(len, out.splitlines())) < 80, f"{rc} {err}\n{out}")
        check([x for x in rows if x[:1] == ["batch"]][0][2:] == ["activations", "recomputed", "data", "workspace", "total", "fit", "work"], out)
        check(sum(x[:2] == ["32", "32"] for x in rows) == 4 and "textbook" in out and "rewind" in out, out)
        wide = mem(p, "--batch", 32)["planned"][0]
        total = [x for x in rows if x[:2] == ["32", "32"]][0][6]
        check(total == f"{wide['total'] / 2**20:.1f}", f"{total} {wide}")
        p.env["COLUMNS"] = "200"
        rc, out, err = p.cli(*args)
        check(rc == 0 and any("parameters gradients optimizer   rewind activations" in x for x in out.splitlines()), out)


def what_a_run_would_refuse_is_refused():
    with Place() as p:
        for args, why in ((("--batch", "64,16777217"), "1 to 16777216"), (("--batch", "0"), "1 to 16777216"),
                          (("--capacity", "1025TiB"), "1.00 MiB to 1.00 PiB"), (("--capacity", "1KiB"), "1.00 MiB to 1.00 PiB")):
            rc, out, err = p.cli("mem", "quickstart", *args)
            check(rc == 2 and why in err, f"{args}: {rc} {err}")
        check(mem(p, "--batch", 16777216, "--capacity", "1PiB")["capacity"] == 1 << 50, "1 PiB is another number")


if __name__ == "__main__":
    main(planned_is_what_a_run_holds, what_does_not_fit_is_accumulated_as_a_run_does, a_larger_batch_is_recomputed_and_back, numbers_are_the_same,
         what_it_cannot_read_it_says, it_fits_a_terminal, what_a_run_would_refuse_is_refused, a_gpu_that_is_not_here,
         a_doctor_looks)
