#!/usr/bin/env python3
"""Prints optim_pytorch.inc: three parameters after 1 and after 20 updates in float64, by PyTorch's
AdamW and by timm's Lamb and Lars, and how far the same optimizers in float32 are from that. Run by
hand when a case is added; the tests read the checked-in output only.

    pip install torch timm
    python3 tests/unit/optim_pytorch.py > tests/unit/optim_pytorch.inc
"""
import torch
from timm.optim import Lamb, Lars

SHAPES = [(5, 7), (5,), (17,)]  # the second does not decay
UPDATES = 20
DECAY = 0.01


def weight(i):
    return (i * 53 % 97 - 48) / 64


def gradient(t, i):
    return (i * 37 % 59 * (t * 101 % 17 + 1) % 113 - 56) / 64


def fill(f):
    """All parameters' numbers one after the other, as tensors."""
    out, at = [], 0
    for s in SHAPES:
        n = torch.Size(s).numel()
        out.append(torch.tensor([f(at + i) for i in range(n)], dtype=torch.float64).reshape(s))
        at += n
    return out


def rate(t):
    return 0.01 * (1 + t / 16)


def factor(t):
    """Gradients of every fourth update are clipped."""
    return 0.5 if t % 4 == 3 else 1.0


CASES = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=1, betas=(0.9, 0.999), eps=1e-8),
    "adamw_short": lambda p: torch.optim.AdamW(p, lr=1, betas=(0.8, 0.95), eps=1e-3),
    "lamb": lambda p: Lamb(p, lr=1, betas=(0.9, 0.999), eps=1e-6, max_grad_norm=None),
    "lars": lambda p: Lars(p, lr=1, momentum=0.9, trust_coeff=0.02, eps=0),
    "lars_nesterov": lambda p: Lars(p, lr=1, momentum=0.9, nesterov=True, trust_coeff=0.02, eps=0),
}


def run(make, dtype):
    """The weights after each update."""
    params = [torch.nn.Parameter(w.to(dtype)) for w in fill(weight)]
    opt = make([{"params": [params[0], params[2]], "weight_decay": DECAY},
                {"params": [params[1]], "weight_decay": 0.0}])
    seen = []
    for t in range(UPDATES):
        for group in opt.param_groups:
            group["lr"] = rate(t)
        for p, g in zip(params, fill(lambda i, t=t: gradient(t, i))):
            p.grad = (g * factor(t)).to(dtype)
        opt.step()
        seen.append(torch.cat([p.detach().double().flatten() for p in params]))
    return seen


def main():
    print("/* Made by optim_pytorch.py with PyTorch %s. */" % torch.__version__.split("+")[0])
    for name, make in CASES.items():
        exact, single = run(make, torch.float64), run(make, torch.float32)
        error = max(float((a - b).abs().max()) for a, b in zip(exact, single))
        print("static const struct known known_%s = {\n    .fp32_error = %.3e," % (name, error))
        for field, t in (("first", 0), ("last", UPDATES - 1)):
            numbers = ["%.17g" % x for x in exact[t].tolist()]
            print("    .%s = {" % field)
            for i in range(0, len(numbers), 4):
                print("        " + ", ".join(numbers[i:i + 4]) + ",")
            print("    },")
        print("};")


main()
