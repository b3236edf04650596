#!/usr/bin/env python3
"""Nets over sequences beside PyTorch's: writes tests/net/seq_parity.inc, which net.seq_parity.* compare with.

usage: seq_parity.py > tests/net/seq_parity.inc

Needs torch and transformers. Weights and tokens are a formula (mix below, the same in seq_parity_test.c), so that the
file holds results only: the loss and, of each parameter's gradient in float64, its norm and a few elements; and how
far PyTorch's float32 gradient is from its float64. GPT-2 and BERT are Hugging Face's classes, the encoder and
decoder is torch.nn.Transformer between one table.
"""
import logging
import math
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from transformers import BertConfig, BertForPreTraining, GPT2Config, GPT2LMHeadModel

logging.disable(logging.WARNING)
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
        config = GPT2Config(vocab_size=VOCABULARY, n_positions=POSITIONS, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS,
                            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=None, eos_token_id=None,
                            attn_implementation="eager")
        return GPT2LMHeadModel(config)

    def loss(self, model, y):
        return loss_of(model(tokens(0, self.length[0])).logits, y)


class Translator(nn.Module):
    def __init__(self, norm_first):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.transformer = nn.Transformer(WIDTH, HEADS, LAYERS, LAYERS, HIDDEN, dropout=0.0, norm_first=norm_first,
                                          batch_first=True)

    def embed(self, x):
        t = torch.arange(x.shape[1], dtype=torch.float64)[:, None]
        angle = t / 10000 ** (torch.arange(0, WIDTH, 2, dtype=torch.float64) / WIDTH)
        table = torch.stack((angle.sin(), angle.cos()), 2).view(x.shape[1], WIDTH)
        w = self.embedding.weight
        return F.embedding(x, w) * math.sqrt(WIDTH) + table.to(w.dtype)

    def forward(self, source, target, padding):
        mask = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        y = self.transformer(self.embed(source), self.embed(target), tgt_mask=mask, src_key_padding_mask=padding,
                             memory_key_padding_mask=padding)
        return y @ self.embedding.weight.t()


class Translation:
    net, length, hidden = "transformer", (68, 37), HIDDEN

    def __init__(self, norm_first):
        self.norm_first = norm_first
        self.name = f"encoder and decoder, normalising {'first' if norm_first else 'last'}"

    def build(self):
        return Translator(self.norm_first)

    def loss(self, model, y):
        padding = padding_of(self.length[0])
        return loss_of(model(tokens(0, self.length[0]), tokens(1, self.length[1]), padding), y)


class Bert:
    name, net, length, hidden, norm_first = "BERT", "bert", (66, 66), HIDDEN, False

    def build(self):
        config = BertConfig(vocab_size=VOCABULARY, max_position_embeddings=POSITIONS, hidden_size=WIDTH,
                            num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=HIDDEN,
                            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, attn_implementation="eager")
        return BertForPreTraining(config)

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
