"""torch_gpt.py MODE gpt LAYERS WIDTH HEADS LENGTH VOCABULARY BATCH THREADS: PyTorch's side, sequences.

GPT-2's net as PyTorch is best at it: scaled_dot_product_attention, fused AdamW, MODE eager or compile
(net and loss in one graph). Lines on standard input are "full N" and "rss", as of torch_train.py.
"""

import sys

import torch
from torch import nn
from torch.nn import functional as F

from torch_serve import serve


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width)
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.ln_2 = nn.LayerNorm(width)
        self.c_fc = nn.Linear(width, 4 * width)
        self.mlp_proj = nn.Linear(4 * width, width)

    def forward(self, x):
        n, t, d = x.shape
        q, k, v = (part.view(n, t, self.heads, d // self.heads).transpose(1, 2)
                   for part in self.c_attn(self.ln_1(x)).split(d, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).reshape(n, t, d))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, length, vocabulary):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.wte.weight
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, labels):
        x = self.wte(tokens) + self.wpe.weight[:tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln_f(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1))


def main():
    mode = sys.argv[1]
    layers, width, heads, length, vocabulary, batch, threads = map(int, sys.argv[3:10])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    net = Gpt(layers, width, heads, length, vocabulary)
    net.train()
    tokens = torch.randint(vocabulary, (batch, length))
    labels = torch.randint(vocabulary, (batch, length))
    groups = [{"params": [p for p in net.parameters() if p.dim() > 1], "weight_decay": 0.1},
              {"params": [p for p in net.parameters() if p.dim() == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=3e-4, betas=(0.9, 0.95), eps=1e-8, fused=True)
    step = torch.compile(net) if mode == "compile" else net

    def update():
        optimizer.zero_grad(set_to_none=True)
        step(tokens, labels).backward()
        optimizer.step()

    serve(update)


if __name__ == "__main__":
    main()
