#!/usr/bin/env python3
"""Runs over sequences: a batch counted in tokens, changed live, ended and resumed; what is refused at the start."""
import math
import os
import re
import struct

from bst import Place, check, main, signal

SOME = {"model.name": "gpt", "model.width": 32, "model.layers": 1, "model.heads": 2, "data.format": "text",
        "data.length": 32, "optimizer": "adamw", "learning_rate": 0.003, "lr_scheduler": "constant", "warmup_epochs": 0,
        "lr_scaling": "sqrt", "data.train_count": "auto", "data.eval_count": 16}


def text(p):
    """A file that is the same everywhere: numbers written out."""
    path = p.path / "numbers.txt"
    path.write_text("".join(f"{i} squared is {i * i}.\n" for i in range(1200)))
    return {**SOME, "data.path": path}


def a_batch_of_tokens_is_changed_and_resumed():
    with Place() as p:
        some = {**text(p), "batch_unit": "tokens", "global_batch_size": 512, "lr_base_batch_size": 512, "max_epochs": 2,
                "changes": '[{at: 10st, command: "batch +20%"}, {at: 20st, command: "batch =1000"}]'}
        whole = p.start("whole", **some).end()
        sizes = {m["update"]: (m["global_batch_size"], m["tokens"]) for m in whole.metrics()}
        # 614 tokens are 19.19 sequences of 32, 1000 are 31.25.
        for update, want in ((10, (16, 512)), (11, (19, 608)), (21, (31, 992))):
            near = [sizes[u] for u in range(update, update + 3) if u in sizes]
            check(want in near, f"around update {update}: {near}, {want} expected")
        changed = [c for e in whole.journal() for c in e["changes"] if c["key"] == "global_batch_size"]
        check([c["new"] for c in changed] == ["614 tokens (19 samples)", "1000 tokens (31 samples)"], f"{changed}")
        rate = [m["learning_rate"] for m in whole.metrics()]
        check(abs(rate[-1] / rate[0] - math.sqrt(1000 / 512)) < 1e-9, f"{rate[0]} became {rate[-1]}")
        check(whole.metrics()[-1]["loss"] < 0.8 * whole.metrics()[0]["loss"], "nothing was learnt")
        e = whole.metrics("eval")[-1]
        check(abs(e["perplexity"] - math.exp(e["loss"])) < 1e-6 * e["perplexity"] and e["eval_targets"] == 16 * 32, f"{e}")
        parts = p.start("parts", **some)
        parts.wait_update(15)
        parts.send(signal.SIGTERM)
        parts.end(75)
        parts = p.start("parts", resume=True).end()
        check(whole.series() == parts.series() and whole.weights() == parts.weights(), "resumed, it ends elsewhere")


def what_cannot_be_is_refused_at_the_start():
    """With the file, the place and the value, before an update is made; a pipe is not waited for."""
    with Place() as p:
        (p.path / "bad.txt").write_bytes(b"one\ntwo \xff\n" * 500)
        (p.path / "odd.bin").write_bytes(bytes(10001))
        (p.path / "large.bin").write_bytes(bytes(10000) + b"\x40\x01" + bytes(10000))
        (p.path / "header.bin").write_bytes(struct.pack("<3i", 20240520, 1, 6000) + bytes(1012 + 10000))
        os.mkfifo(p.path / "pipe.bin")
        (p.path / "train.en").write_text("one\ntwo\nthree\n")
        (p.path / "train.de").write_text("eins\nzwei\n")
        tokens = {"data.format": "tokens", "model.classes": 300}
        for change, code, word in (({"data.path": "bad.txt"}, 1, "bad.txt:2: byte 8, 0xFF, is not UTF-8"),
                                   ({"data.path": "none.txt"}, 2, "none.txt: No such file"),
                                   ({"data.format": "shapes"}, 2, "shapes is a set of images, gpt takes sequences"),
                                   ({"data.length": 3}, 2, "data.length"),
                                   ({"data.length": 64, "model.positions": 63}, 2, "sequences of 64, but only 63 positions"),
                                   ({"model.name": "transformer"}, 2, "text has no pairs to translate"),
                                   ({"model.name": "resnet8"}, 2, "text is a set of sequences, resnet8 takes images"),
                                   ({**tokens, "data.path": "odd.bin"}, 1, "odd.bin: 10001 bytes are not whole tokens of 2 bytes"),
                                   ({**tokens, "data.path": "large.bin"}, 1, "large.bin: token 5000 is 320, the vocabulary has 300"),
                                   ({**tokens, "data.path": "header.bin"}, 1, "header.bin: its header tells of 6000 tokens"),
                                   ({**tokens, "data.path": "pipe.bin"}, 2, "pipe.bin: not a regular file"),
                                   ({"model.name": "transformer", "data.format": "pairs", "data.path": ".",
                                     "data.languages": "en-de"}, 1, "train.en has 3 lines, ./train.de 2")):
            r = p.start("refused-" + "-".join(str(v).replace(".", "") for v in change.values()), **{**text(p), "max_epochs": 1, **change})
            r.end(code)
            check(word in r.said(), f"{change}: {r.said()}")
            check(not r.metrics(), f"{change}: an update was made")


def samples_and_tokens_a_second_go_by_one_rule():
    """Rows of 32 tokens: whatever mean a line shows, tokens/s is 32 times samples/s."""
    with Place() as p:
        r = p.start("r", "--log-every", "1", **text(p), max_epochs=1).end()
        pairs = [(int(a), int(b)) for a, b in re.findall(r"^update .*  (\d+)/s  (\d+) tokens/s", r.said(), re.M)]
        check(len(pairs) == len(r.metrics()) and len(set(pairs)) > 5, f"{len(pairs)} lines: {r.said()[-500:]}")
        off = [x for x in pairs if abs(x[1] - 32 * x[0]) > 17]  # half a sample and half a token of rounding
        check(not off, f"{len(off)} of {len(pairs)} lines: {off[:3]}")


if __name__ == "__main__":
    main(a_batch_of_tokens_is_changed_and_resumed, what_cannot_be_is_refused_at_the_start,
         samples_and_tokens_a_second_go_by_one_rule)
