#!/usr/bin/env python3
"""A whole run without a console: its files, its numbers, its end; on ref and on cpu."""
import json
import struct

from bst import Place, check, main


def files_and_numbers(backend):
    with Place() as p:
        r = p.start("a", devices__backend=backend, data__train_count=320, max_epochs=2.1, eval_interval="1ep").end()
        m = r.metrics()
        check([x["update"] for x in m] == list(range(1, 22)) and [x["samples"] for x in m] == [32 * x["update"] for x in m],
              "updates and samples")
        keys = {"type", "update", "samples", "epoch", "loss", "learning_rate", "grad_norm", "global_batch_size",
                "micro_batch_size", "gradient_accumulation_steps", "samples_per_sec", "loss_scale", "elapsed", "accuracy"}
        check(all(keys <= x.keys() for x in m), f"missing: {keys - m[0].keys()}")
        check(m[0]["learning_rate"] == 0 and abs(m[5]["learning_rate"] - 0.1 * 32 / 256 * 160 / 320) < 1e-12, "the warm-up")
        check(m[-1]["epoch"] == 2.1 and m[-1]["loss"] < m[0]["loss"] + 0.5, "the end")
        check([e["samples"] for e in r.metrics("eval")] == [320, 640, 672], "evaluations")
        raw = (r.dir / "weights.safetensors").read_bytes()
        n, = struct.unpack("<Q", raw[:8])
        names = json.loads(raw[8:8 + n])
        check({"conv1.weight", "bn1.running_mean", "layer1.0.conv1.weight", "fc.weight", "fc.bias"} <= names.keys(), f"{names.keys()}")
        check(not any(k.startswith("momentum.") for k in names), "momenta among the weights")
        info = json.loads((r.dir / "run.json").read_text())
        check(info["state"] == "done" and info["pid"] == r.process.pid, f"{info}")
        # The preset in the folder is the same run again.
        again = p.cli("run", r.dir / "preset.yaml", "--headless", "--run-dir", "b")
        check(again[0] == 0, again[2])
        check((p.path / "b" / "weights.safetensors").read_bytes() == raw, "the resolved preset is another run")


def on_cpu():
    files_and_numbers("cpu")


def on_ref():
    files_and_numbers("ref")


def the_last_update_takes_what_is_left():
    with Place() as p:
        r = p.start("l", data__train_count=100, max_epochs=1.3, warmup_epochs=0, devices__count=2).end()
        m = r.metrics()
        check([x["global_batch_size"] for x in m] == [32, 32, 32, 32, 2] and m[-1]["samples"] == 130, f"{m}")


def steps_become_samples():
    with Place() as p:
        r = p.start("s", "--set", "max_steps=12", "--set", "warmup_steps=4", "--set", "eval_interval=5st", max_epochs=1,
                    warmup_epochs=0).end()
        check(len(r.metrics()) == 12 and [e["update"] for e in r.metrics("eval")] == [5, 10, 12], "not 12 updates")
        check(abs(r.metrics()[2]["learning_rate"] - 0.0125 * 0.5) < 1e-15, "warm-up")


def two_ranks_give_the_same_numbers_each_time():
    with Place() as p:
        one = p.start("one", devices__count=2, global_batch_size=33, max_epochs=2).end()
        two = p.start("two", devices__count=2, global_batch_size=33, max_epochs=2).end()
        check(one.weights() == two.weights() and one.series() == two.series(), "two runs differ")
        check({m["micro_batch_size"] for m in one.metrics()} <= {17, 13}, "parts")


def divergence_ends_with_1_and_saves():
    with Place() as p:
        r = p.start("d", learning_rate=900, lr_base_batch_size=1, warmup_epochs=0, max_epochs=50, momentum=0.99).end(1)
        check("BST-102" in r.said(), r.said())
        m = r.metrics()
        check(len(m) >= 10 and all(x.get("skipped") for x in m[-10:]), f"{m[-1]}")
        check(all((x["loss"] is None or x["grad_norm"] is None) == ("nonfinite" in x) for x in m), "nulls and their reason")
        check(list(r.dir.glob("checkpoints/*/MANIFEST")), "nothing was saved")
        check(json.loads((r.dir / "run.json").read_text())["state"] == "failed", "state")


def bad_presets_end_with_2():
    with Place() as p:
        for sets, word in ((["model.name=resnet9000"], "resnet9000"), (["global_batch_size=0"], "global_batch_size"),
                           (["devices.backend=tpu"], "tpu"), (["lr_groups=[{match: nosuch.*, factor: 2}]"], "nosuch"),
                           (["max_epochs=1", "max_steps=x"], "max_steps")):
            args = [a for s in sets for a in ("--set", s)]
            rc, _, err = p.cli("run", "quickstart", "--headless", "--run-dir", "x", *args)
            check(rc == 2 and word in err, f"{sets}: {rc} {err}")
            check(not (p.path / "x").exists(), f"{sets}: a folder was made")
        rc, _, err = p.cli("run", "nosuch", "--headless")
        check(rc == 2 and "nosuch" in err, f"{rc} {err}")


if __name__ == "__main__":
    main(on_cpu, on_ref, the_last_update_takes_what_is_left, steps_become_samples,
         two_ranks_give_the_same_numbers_each_time, divergence_ends_with_1_and_saves, bad_presets_end_with_2)
