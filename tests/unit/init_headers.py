#!/usr/bin/env python3
"""Writes init_gpt2.json and init_bert.json: the headers of the files that Hugging Face's save_pretrained makes of two
tiny nets, which unit.init reads with values of its own. Needs transformers; run by hand.

usage: init_headers.py [FOLDER]   a folder: the files themselves stay there, to be tried with bstune run --init
"""
import os
import struct
import sys
import tempfile

import torch
from transformers import BertConfig, BertForPreTraining, GPT2Config, GPT2LMHeadModel

HERE = os.path.dirname(os.path.abspath(__file__))


def nets():
    torch.manual_seed(1)
    yield "gpt2", GPT2LMHeadModel(GPT2Config(vocab_size=17, n_positions=12, n_embd=6, n_layer=2, n_head=2))
    yield "bert", BertForPreTraining(BertConfig(vocab_size=17, max_position_embeddings=12, hidden_size=6,
                                                num_hidden_layers=1, num_attention_heads=2, intermediate_size=10))


def main(folder):
    for name, net in nets():
        path = os.path.join(folder, name)
        net.save_pretrained(path)
        with open(os.path.join(path, "model.safetensors"), "rb") as f:
            text = f.read(struct.unpack("<Q", f.read(8))[0]).decode().rstrip()
        with open(os.path.join(HERE, f"init_{name}.json"), "w") as f:
            f.write(text + "\n")


if len(sys.argv) > 1:
    main(sys.argv[1])
else:
    with tempfile.TemporaryDirectory() as made:
        main(made)
