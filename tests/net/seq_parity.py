#!/usr/bin/env python3
"""Nets over sequences beside PyTorch's: writes tests/net/seq_parity.inc, which net.seq_parity.* compare with.

usage: seq_parity.py > tests/net/seq_parity.inc

Needs torch and transformers. Weights and tokens are a formula (mix below, the same in seq_parity_test.c), so that the
file holds results only: the loss and, of each parameter's gradient in float64, its norm and a few elements; and how
far PyTorch's float32 gradient is from its float64. The nets are those of seq_models.py.
"""
import sys

import numpy as np
import torch
import torch.nn.functional as F

from seq_models import Sizes, Translator, bert, gpt

LAYERS, HEADS, WIDTH, HIDDEN, VOCABULARY, POSITIONS, SAMPLES = 2, 3, 48, 80, 67, 90, 3
SMOOTHING = 0.1
N_ELEMENTS = 4


def mix(seed, n):
    """n numbers of 32 bits: SplitMix64's finaliser of seed·2³² + i, upper half."""
    x = (np.uint64(seed) << np.uint64(32)) + np.arange(n, dtype=np.uint64)
    with np.errstate(over="ignore"):
        x = x * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
    return (x >> np.uint64(32)).astype(np.int64)


def uniform(seed, n):
    """-1 to 1, 16 bits: floats hold them exactly."""
    return (mix(seed, n) >> 16).astype(np.float64) / 32768 - 1


def start_value(name, values):
    is_scale = (".ln_" in name or "norm" in name.lower()) and name.endswith("weight")
    return values / 4 + (1 if is_scale else 0)


def fill(model):
    with torch.no_grad():
        for seed, (name, p) in enumerate(model.named_parameters()):
            p.copy_(torch.from_numpy(start_value(name, uniform(100 + seed, p.numel()))).view_as(p))
    return model


def tokens(stream, length, vocabulary=VOCABULARY):
    return torch.from_numpy(mix(10 + stream, SAMPLES * length) % vocabulary).view(SAMPLES, length)


def padding_of(length):
    lengths = torch.from_numpy(1 + mix(20, SAMPLES) % length)
    return torch.arange(length)[None] >= lengths[:, None]


def labels(length):
    y = torch.from_numpy(mix(2, SAMPLES * length) % VOCABULARY)
    y[torch.from_numpy(mix(3, SAMPLES * length) % 5 == 0)] = -100
    return y


def loss_of(logits, y):
    return F.cross_entropy(logits.reshape(-1, VOCABULARY), y, label_smoothing=SMOOTHING, ignore_index=-100)


class Gpt:
    name, net, length, hidden, norm_first = "GPT-2", "gpt", (71, 0), 0, False

    def build(self):
        return gpt(Sizes(VOCABULARY, WIDTH, LAYERS, HEADS, positions=POSITIONS))

    def loss(self, model, y):
        return loss_of(model(tokens(0, self.length[0])).logits, y)


class Translation:
    net, length, hidden = "transformer", (68, 37), HIDDEN

    def __init__(self, norm_first):
        self.norm_first = norm_first
        self.name = f"encoder and decoder, normalising {'first' if norm_first else 'last'}"

    def build(self):
        return Translator(Sizes(VOCABULARY, WIDTH, LAYERS, HEADS, HIDDEN, norm_first=self.norm_first))

    def loss(self, model, y):
        padding = padding_of(self.length[0])
        return loss_of(model(tokens(0, self.length[0]), tokens(1, self.length[1]), padding), y)


class Bert:
    name, net, length, hidden, norm_first = "BERT", "bert", (66, 66), HIDDEN, False

    def build(self):
        return bert(Sizes(VOCABULARY, WIDTH, LAYERS, HEADS, HIDDEN, POSITIONS))

    def loss(self, model, y):
        t = self.length[0]
        words = 1 + tokens(0, t, VOCABULARY - 1)  # row 0 is padding's, which Hugging Face's class does not train
        out = model(words, (~padding_of(t)).long(), tokens(1, t, 2))
        pair = torch.from_numpy(mix(4, SAMPLES) % 2)
        return loss_of(out.prediction_logits, y) + F.cross_entropy(out.seq_relationship_logits, pair)


def gradients(case, model, dtype):
    model = model.to(dtype)
    model.zero_grad()
    y = labels(case.length[0] if case.net in ("gpt", "bert") else case.length[1])
    loss = case.loss(model, y)
    loss.backward()
    grads = {name: p.grad.double().numpy().copy() for name, p in model.named_parameters()}
    return loss.item(), int((y >= 0).sum()), grads


def write(i, case):
    torch.manual_seed(1)
    model = fill(case.build().double().train())
    loss, targets, exact = gradients(case, model, torch.float64)
    _, _, single = gradients(case, model, torch.float32)
    print(f"static const struct known known_{i}[] = {{")
    for seed, (name, g) in enumerate(exact.items()):
        own = np.linalg.norm(single[name] - g) / np.linalg.norm(g)
        at = mix(50 + seed, N_ELEMENTS) % g.size
        print(f'    {{"{name}", {100 + seed}, {float(np.linalg.norm(g))!r}, {float(own):.4g},')
        print("     {" + ", ".join(str(k) for k in at) + "},")
        print("     {" + ", ".join(repr(float(g.reshape(-1)[k])) for k in at) + "}},")
    print("};")
    return (f'    {{"{case.name}", "{case.net}", {{{case.length[0]}, {case.length[1]}}}, {case.hidden}, '
            f"{str(case.norm_first).lower()}, {loss!r}, {targets},\n     known_{i}, {len(exact)}}},")


def main():
    torch.set_num_threads(1)
    print(f"/* Written by tests/net/seq_parity.py from PyTorch {torch.__version__.split('+')[0]}: do not edit. */")
    for name in "LAYERS HEADS WIDTH VOCABULARY POSITIONS SAMPLES SMOOTHING".split():
        print(f"#define {name} {globals()[name]}")
    rows = [write(i, c) for i, c in enumerate((Gpt(), Translation(False), Translation(True), Bert()))]
    print("static const struct net nets[] = {")
    print("\n".join(rows))
    print("};")


if __name__ == "__main__":
    sys.exit(main())
