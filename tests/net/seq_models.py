"""PyTorch's nets over sequences, as bstune's are named and wired: what seq_parity.py and seq_runs.py compare with.

GPT-2 and BERT are Hugging Face's classes; the encoder and decoder is torch.nn.Transformer between one table.
"""
import logging
import math

import torch
import torch.nn.functional as F
from torch import nn
from transformers import BertConfig, BertForPreTraining, GPT2Config, GPT2LMHeadModel

logging.disable(logging.WARNING)
IGNORED = -100


class Sizes:
    def __init__(self, vocabulary, width, layers, heads, hidden=0, positions=0, norm_first=False):
        self.vocabulary, self.width, self.layers, self.heads = vocabulary, width, layers, heads
        self.hidden, self.positions, self.norm_first = hidden, positions, norm_first


def gpt(s, attention="eager"):
    config = GPT2Config(vocab_size=s.vocabulary, n_positions=s.positions, n_embd=s.width, n_layer=s.layers,
                        n_head=s.heads, n_inner=s.hidden or None, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                        bos_token_id=None, eos_token_id=None, attn_implementation=attention)
    return GPT2LMHeadModel(config)


def bert(s, attention="eager"):
    config = BertConfig(vocab_size=s.vocabulary, max_position_embeddings=s.positions, hidden_size=s.width,
                        num_hidden_layers=s.layers, num_attention_heads=s.heads,
                        intermediate_size=s.hidden or 4 * s.width, hidden_dropout_prob=0.0,
                        attention_probs_dropout_prob=0.0, attn_implementation=attention)
    return BertForPreTraining(config)


class Translator(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.width = s.width
        self.embedding = nn.Embedding(s.vocabulary, s.width)
        self.transformer = nn.Transformer(s.width, s.heads, s.layers, s.layers, s.hidden or 4 * s.width, dropout=0.0,
                                          norm_first=s.norm_first, batch_first=True)

    def embed(self, x):
        t = torch.arange(x.shape[1], dtype=torch.float64)[:, None]
        angle = t / 10000 ** (torch.arange(0, self.width, 2, dtype=torch.float64) / self.width)
        table = torch.stack((angle.sin(), angle.cos()), 2).view(x.shape[1], self.width)
        w = self.embedding.weight
        return F.embedding(x, w) * math.sqrt(self.width) + table.to(w.dtype)

    def forward(self, source, target, padding):
        mask = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        y = self.transformer(self.embed(source), self.embed(target), tgt_mask=mask, src_key_padding_mask=padding,
                             memory_key_padding_mask=padding)
        return y @ self.embedding.weight.t()
