#!/usr/bin/env python3
"""A net over sequences that learns its task within seconds; how far it must come is worked out, not tried out.

The digits of a row are even and independent for whoever does not look at what is asked: each then costs ln 10 at least
(Gibbs), whatever is predicted. A loss far under that is that of a net that looks.
"""
import json
import math

from bst import Place, check, main

SMALL = {"data.path": "", "model.layers": 2, "model.width": 32, "model.heads": 4, "devices.threads": 1, "devices.backend": "cpu",
         "data.eval_count": 500, "max_epochs": 100, "checkpoint_interval": "never"}


def learn(p, preset, **settings):
    sets = {**SMALL, **{k.replace("__", "."): v for k, v in settings.items()}}
    rc, out, err = p.cli("run", preset, "--headless", "--run-dir", p.path / preset,
                         *[x for k, v in sets.items() for x in ("--set", f"{k}={v}")])
    check(rc == 0, f"{preset}: {rc} {out} {err}")
    return out


def lines(p, preset, kind):
    all_lines = map(json.loads, (p.path / preset / "metrics.jsonl").read_text().splitlines())
    return [m for m in all_lines if m["type"] == kind]


def a_translator_learns_to_reverse():
    with Place() as p:
        out = learn(p, "transformer-noam", data__format="reverse", data__length=8, model__dropout=0, label_smoothing=0,
                    global_batch_size=384, learning_rate=0.005, warmup_steps=100, max_steps=450, eval_interval="225st")
        e = lines(p, "transformer-noam", "eval")[-1]
        digits = e["eval_targets"] - e["eval_samples"]
        blind = digits * math.log(10) / e["eval_targets"]
        check(e["loss"] < blind / 8, f"{e}, {blind:.3f} without looking")
        # A net that guesses its digits writes a row of three or more without a mistake once in a thousand times.
        check(e["exact_match"] > 0.6, f"{e}")
        check(f"exact {100 * e['exact_match']:.2f} %" in out, out)
        rc, status, _ = p.cli("status", p.path / "transformer-noam")
        check(f"exact {100 * e['exact_match']:.2f} %" in status, status)
        rc, table, _ = p.cli("export", p.path / "transformer-noam")
        head, *rows = (row.split(",") for row in table.splitlines())
        at = head.index("eval_exact_match")
        check([float(r[at]) for r in rows if r[at]] == [m["exact_match"] for m in lines(p, "transformer-noam", "eval")], table[:200])
        updates = lines(p, "transformer-noam", "update")
        check(all(0 <= m["exact_match"] <= m["accuracy"] for m in updates), "an answer is right only if its digits are")


if __name__ == "__main__":
    main(a_translator_learns_to_reverse)
