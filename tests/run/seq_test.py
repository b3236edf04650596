#!/usr/bin/env python3
"""Nets over sequences under everything that a run can be asked: live changes, ends and resumes, the instruments."""
import json
import math

from bst import Place, check, main, signal
from repeat_test import Started

SEQ = {"model.width": 16, "model.layers": 1, "model.heads": 2, "model.dropout": 0.1, "optimizer": "adamw",
       "learning_rate": 0.003, "lr_scaling": "sqrt", "lr_scheduler": "constant", "warmup_epochs": 0,
       "lr_base_batch_size": 32, "data.train_count": 640, "data.eval_count": 32, "max_epochs": 2,
       "checkpoint_interval": "never"}
NETS = {
    "gpt": {**SEQ, "model.name": "gpt", "data.format": "reverse", "data.length": 24},
    "transformer": {**SEQ, "model.name": "transformer", "data.format": "reverse", "data.length": 14},
    "bert": {**SEQ, "model.name": "bert", "data.format": "random", "data.length": 24, "model.classes": 50},
}


def near(a, b):
    return abs(a - b) <= 1e-9 * abs(b)


def sets(settings):
    return [x for k, v in settings.items() for x in ("--set", f"{k}={v}")]


def sizes_of(run):
    return {m["update"]: m["global_batch_size"] for m in run.metrics()}


def twenty_percent_of_sequences():
    with Place() as p:
        for net, some in NETS.items():
            r = p.start(net, **some, changes='[{at: 5st, command: "batch +20%"}, {at: 12st, command: "batch -20%"}]').end()
            m, sizes = r.metrics(), sizes_of(r)
            # 12 updates of the first batch are done after 11: 5 of 32 and 6 of 38.
            check([sizes[u] for u in (5, 6, 11, 12)] == [32, 38, 38, 30], f"{net}: {sizes}")
            check(all(b["samples"] - a["samples"] == b["global_batch_size"] for a, b in zip(m, m[1:])), f"{net}: not exact")
            check(m[-1]["samples"] == 1280, f"{net}: {m[-1]}")
            # BERT's loss has that of the pairs in it, its perplexity has not.
            e = r.metrics("eval")[-1]
            pairs = e["loss"] - math.log(e["perplexity"])
            check(0.1 < pairs < 2 if net == "bert" else abs(pairs) < 1e-9, f"{net}: {e}")
            rate = {u["global_batch_size"]: u["learning_rate"] for u in m}
            check(all(near(rate[b], 0.003 * math.sqrt(b / 32)) for b in (32, 38, 30)), f"{net}: {rate}")


def twenty_percent_of_tokens():
    """Rows of other lengths: a batch of n tokens is n over the mean of them, to the nearest sequence."""
    with Place() as p:
        for net in ("gpt", "transformer"):
            r = p.start(net, **{**NETS[net], "batch_unit": "tokens", "global_batch_size": 600, "max_epochs": 3,
                                "changes": '[{at: 5st, command: "batch +20%"}, {at: 12st, command: "batch -20%"}]'}).end()
            mean = sum(m["tokens"] for m in r.metrics()) / r.metrics()[-1]["samples"]
            want = [round(n / mean) for n in (600, 720, 576)]
            sizes = list(dict.fromkeys(sizes_of(r).values()))
            check(sizes[:3] == want, f"{net}: batches of {sizes}, rows of {mean} tokens: {want} expected")
            new = [c["new"] for e in r.journal() for c in e["changes"] if c["key"] == "global_batch_size"]
            check(new == [f"720 tokens ({want[1]} samples)", f"576 tokens ({want[2]} samples)"], f"{net}: {new}")


def noam_is_stretched_and_taken_back():
    """Longer by 20 updates in the tenth: the rate goes on from where it is, and reaches its peak at 60."""
    with Place() as p:
        noam = {**NETS["transformer"], "lr_scheduler": "noam", "warmup_steps": 40, "max_epochs": 6}
        r = p.start("r", **noam, changes='[{at: 10st, command: "warmup +20st"}]').end()
        rate = [m["learning_rate"] for m in r.metrics()]
        made = r.journal()[0]["update"] - 1  # updates before the change
        check(made in (10, 11, 12), f"{r.journal()}")
        for i in range(made):
            check(near(rate[i], 0.003 * (i + 1) / 40), f"update {i + 1}: {rate[i]}")
        top = max(range(len(rate)), key=rate.__getitem__) + 1
        check(top in (59, 60, 61) and near(rate[top - 1], 0.003), f"its peak, {rate[top - 1]}, is in update {top}")
        check(all(a < b for a, b in zip(rate[:top], rate[1:top])), "it does not rise up to there")
        check(max(b / a for a, b in zip(rate[made - 1:], rate[made:])) < 1 + 1.5 / made, f"a jump: {rate[made - 2:made + 2]}")
        rest = rate[top:]
        check(all(b < a for a, b in zip(rest, rest[1:])), "it does not fall behind it")
        back = p.start("back", **noam, changes='[{at: 10st, command: "warmup +20st"}, {at: 20st, command: undo}]').end()
        rate = [m["learning_rate"] for m in back.metrics()]
        top = max(range(len(rate)), key=rate.__getitem__) + 1
        check(top in (39, 40, 41), f"taken back, its peak is in update {top}")


def a_preset_is_taken_up():
    with Place() as p:
        (p.path / "other.yaml").write_text(
            "name: Other\nmodel: {name: bert}\ndata: {format: random, length: 32}\noptimizer: lamb\nglobal_batch_size: 48\n"
            "learning_rate: 0.002\nlr_base_batch_size: 48\nlr_scaling: sqrt\nwarmup_steps: 4\nlr_scheduler: inverse-sqrt\n"
            "max_grad_norm: 0.25\nclip_interval: 2\nweight_decay: 0.02\nmax_epochs: 3\n")
        r = p.start("r", **{**NETS["bert"], "max_epochs": 400, "eval_interval": "never"})
        r.wait_update(8)
        rc, reply = r.ctl("preset", "other.yaml")
        check(rc == 0, f"{reply}")
        changed = {c["key"]: c["new"] for c in reply["changes"]}
        for key, want in (("global_batch_size", 48), ("max_grad_norm", 0.25), ("clip_interval", 2)):
            check(changed[key] == want, f"{key}: {changed}")
        # What is lamb's says nothing to adamw: the rate follows the batch as the run has it.
        check(abs(changed["learning_rate"] / (0.003 * math.sqrt(48 / 32)) - 1) < 1e-6, f"{changed}")
        check({"optimizer", "data.length", "max_epochs", "learning_rate", "weight_decay"} <= {k["key"] for k in reply["kept"]},
              f"{reply['kept']}")
        at = reply["effective_update"]
        r.wait_update(at + 6)
        r.ctl("stop")
        r.end()
        after = [m for m in r.metrics() if m["update"] >= at]
        check(all(m["global_batch_size"] == 48 for m in after[:6]), f"{after[:6]}")
        # Every second update is clipped where its norm calls for it, no other is.
        clipped = {m["update"] % 2 for m in after if m.get("clipped")}
        check(clipped == {0}, f"clipped: {[m['update'] for m in after if m.get('clipped')]}")


def an_end_and_a_kill_change_nothing():
    """With dropout on, bit for bit; from a checkpoint on demand, and from one made on the way."""
    with Place() as p:
        for net, some in NETS.items():
            some = {**some, "checkpoint_interval": "30st", "eval_interval": "never", "max_epochs": 6}
            whole = p.start(net, **some).end()
            for name, sig, code in (("ended", signal.SIGTERM, 75), ("killed", signal.SIGKILL, -9)):
                if (net, name) in (("transformer", "killed"), ("bert", "ended")):
                    continue
                r = p.start(f"{net}-{name}", **some)
                r.wait_update(40)
                r.send(sig)
                # A machine with much else to do may have let it come to its end.
                if r.process.wait() != 0:
                    r.end(code)
                    r = p.start(r.name, resume=True).end()
                check(r.series() == whole.series(), f"{net}, {name}: another series")
                check(r.weights() == whole.weights(), f"{net}, {name}: other weights")


def a_change_is_rewound():
    """As if it had never been: the masks of dropout, the means of AdamW, the place in the data."""
    with Place() as p:
        some = {**NETS["gpt"], "max_epochs": 30, "eval_interval": "never"}
        whole = p.start("whole", **some).end()
        r = p.start("r", **some)
        r.wait_update(5)
        rc, reply = r.ctl("lr", "x8")
        check(rc == 0, f"{reply}")
        r.wait_update(reply["effective_update"] + 3)
        rc, reply = r.ctl("undo", "--rewind")
        check(rc == 0, f"{reply}")
        r.end()
        check(r.weights() == whole.weights(), "rewound, it ends elsewhere")


def fit_and_mem_agree():
    with Place() as p:
        for net, some in NETS.items():
            some = {**some, "model.width": 64, "model.layers": 2}
            rc, out, err = p.cli("mem", "quickstart", "--json", *sets(some), "--set", "devices.backend=cpu", "--batch", "4,8")
            check(rc == 0, err)
            rows = {row["global_batch_size"]: row["total"] for row in json.loads(out)["planned"]}
            check(rows[4] < rows[8], f"{net}: {rows}")
            r = p.start(net, **{**some, "global_batch_size": 8, "max_epochs": 1, "eval_interval": "never"})
            r.wait_update(1)
            used = r.status().get("devices", [{}])[0].get("memory_used")
            r.end()
            check(used in (rows[8], None), f"{net}: a run took {used}, planned were {rows[8]}")
            if net != "bert":
                continue
            # Exactly the room for 8: the 9th does not fit.
            rc, out, err = p.cli("fit", "quickstart", "--json", *sets(some), "--set", "devices.backend=cpu",
                                 "--set", "global_batch_size=8", "--set", f"devices.memory={rows[8]}", "--max", "16")
            check(rc == 0, err)
            found = json.loads(out)
            check(found["largest"] == 8, f"{net}: in {rows[8]} bytes: {found['largest']}")


def searches_leave_it_alone():
    """lrfind, fit and a trial in a live run; what it then makes is what one without them makes."""
    with Place() as p:
        some = {**NETS["transformer"], "max_epochs": 25, "eval_interval": "never"}
        plain = p.start("plain", **some).end()
        r = p.start("r", **some)
        r.wait_update(4)
        rc, o = r.ctl("lrfind", "24", "1")
        check(o["code"] in ("BST-315", "BST-316"), f"lrfind: {o}")
        rc, o = r.ctl("fit", "40")
        check(rc == 0 and "largest micro-batch 40" in o["text"], f"fit: {o}")
        rc, out, err = p.cli("trial", r.dir, "batch", "x2", "--updates", "60")
        check(rc == 0 and "60 updates" in out and "30 in" in out, f"trial: {out}{err}")
        r.end()
        check(r.series() == plain.series() and r.weights() == plain.weights(), "searched, it ends elsewhere")


def lrfind_by_itself():
    with Place() as p:
        rc, out, err = p.cli("lrfind", "quickstart", *sets(NETS["gpt"]), "--set", "devices.backend=cpu", "--start", "1e-5", "--end", "1",
                             "--updates", "40", "--repeats", "1", "--jsonl", "a.jsonl")
        lines = [json.loads(x) for x in (p.path / "a.jsonl").read_text().splitlines()]
        check(rc in (0, 1) and lines[-1]["type"] == "lrfind-result" and 20 <= lines[-1]["updates"] <= 40, f"{rc} {lines[-1:]} {err}")


def noise_is_measured():
    with Place() as p:
        for net, some in NETS.items():
            # Parts of the batch, whose rows have other lengths.
            r = p.start(net, **{**some, "gradient_accumulation_steps": 4, "max_epochs": 4}).end()
            noise = r.metrics("noise")
            check(noise and all(n.get("noise_scale") is None or n["noise_scale"] > 0 for n in noise), f"{net}: {noise[-1:]}")
            last = r.lines("status.json") or [json.loads((r.dir / "status.json").read_text())]
            check(last[-1]["noise_updates"] > 60, f"{net}: {last[-1]['noise_updates']} updates measured")


def a_sweep():
    with Place() as p:
        rc, out, err = p.cli("sweep", "quickstart", *sets({k: v for k, v in NETS["gpt"].items() if k != "max_epochs"}),
                             "--set", "devices.backend=cpu", "--batch", "16,32", "--epochs", "1", "--run-dir", p.path / "w")
        check(rc == 0, out + err)
        rc, out, err = p.cli("sweep", p.path / "w", "--json")
        rows = json.loads(out)["rows"]
        check([r["batch"] for r in rows] == [16, 32] and all(r["loss"] > 0 for r in rows), f"{rows}")


def a_journal_is_done_again():
    """As a run from the journal, and as the preset that the journal becomes."""
    with Place() as p:
        some = {**NETS["bert"], "batch_unit": "tokens", "global_batch_size": 480, "lr_base_batch_size": 480, "max_epochs": 12}
        r = p.start("r", **some)
        for n, command in ((5, "batch +20%"), (25, "lr *0.5")):
            r.wait_update(n)
            rc, reply = r.ctl(*command.split())
            check(rc == 0, f"{reply}")
        r.end()
        rc, out, err = p.cli("journal", r.dir, "--export-preset", p.path / "tuned.yaml")
        check(rc == 0, err)
        for name, what in (("again", r.dir / "journal.jsonl"), ("preset", p.path / "tuned.yaml")):
            again = Started(p, name, what).end()
            check(again.series() == r.series() and again.weights() == r.weights(), f"{name}: it ends elsewhere")


def weights_of_elsewhere():
    """--init: from a run's own file, whose names are Hugging Face's; and what is told of one that does not fit."""
    with Place() as p:
        some = {**NETS["gpt"], "model.dropout": 0, "learning_rate": 0.01, "max_epochs": 4}
        first = p.start("first", **some).end()
        weights = first.dir / "weights.safetensors"
        second = p.start("second", "--init", str(weights), **some).end()
        begun, left, taken_up = first.metrics()[0]["loss"], first.metrics()[-1]["loss"], second.metrics()[0]["loss"]
        check(taken_up < (begun + left) / 2, f"from {begun} to {left}, then from {taken_up}: it starts anew")
        for name, words, change in (("other", '"transformer.wte.weight" belongs to no parameter', NETS["transformer"]),
                                    ("wide", "[14, 16], the net has [14, 18]", {"model.width": 18})):
            r = p.start(name, "--init", str(weights), **{**some, **change})
            r.end(2)
            check("BST-405" in r.said() and words in r.said(), r.said())


if __name__ == "__main__":
    main(twenty_percent_of_sequences, twenty_percent_of_tokens, noam_is_stretched_and_taken_back, a_preset_is_taken_up,
         an_end_and_a_kill_change_nothing, a_change_is_rewound, fit_and_mem_agree, searches_leave_it_alone, lrfind_by_itself,
         noise_is_measured, a_sweep, a_journal_is_done_again, weights_of_elsewhere)
