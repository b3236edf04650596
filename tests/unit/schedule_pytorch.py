#!/usr/bin/env python3
"""Prints schedule_pytorch.inc: the rate of every update under PyTorch's own schedulers, with a
constant batch. Run by hand when a case is added; the tests read the checked-in output only.

    python3 tests/unit/schedule_pytorch.py > tests/unit/schedule_pytorch.inc
"""
import warnings

import torch
from torch.optim import lr_scheduler as s

warnings.simplefilter("ignore")


def rates(lr, n, make):
    opt = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    sched = make(opt)
    out = []
    for k in range(n):
        out.append(opt.param_groups[0]["lr"])
        opt.step()
        if k + 1 < n:
            sched.step()
    return out


def then(opt, up, w, after):
    return s.SequentialLR(opt, [up, after], milestones=[w])


def warm(opt, start, w, after):
    return then(opt, s.LinearLR(opt, start_factor=start, end_factor=1.0, total_iters=w), w, after)


def noam(k):
    return 512 ** -0.5 * min((k + 1) ** -0.5, (k + 1) * 40 ** -1.5)


def growing(opt):
    return s.LambdaLR(opt, lambda k: 0.01 ** (1 - k / 50) if k < 50 else 1.0)


# name, kind, curve, updates, batch, peak, start, end ratio, warm-up (updates; one-cycle: pct), maker
CASES = [
    ("constant", "CONSTANT", "LINEAR", 40, 128, 0.1, 0.02, 0.0, 20,
     lambda o: s.LinearLR(o, start_factor=0.2, end_factor=1.0, total_iters=20)),
    ("cosine", "COSINE", "LINEAR", 200, 128, 0.1, 0.0, 0.0, 0, lambda o: s.CosineAnnealingLR(o, 200)),
    ("cosine_odd_batch", "COSINE", "LINEAR", 177, 97, 0.3, 0.0, 0.01, 0,
     lambda o: s.CosineAnnealingLR(o, 177, eta_min=0.003)),
    ("warm_cosine", "COSINE", "LINEAR", 250, 307, 0.4, 0.04, 0.0, 25,
     lambda o: warm(o, 0.1, 25, s.CosineAnnealingLR(o, 225))),
    ("linear", "LINEAR", "LINEAR", 200, 256, 0.1, 0.0, 0.01, 0,
     lambda o: s.LinearLR(o, start_factor=1.0, end_factor=0.01, total_iters=200)),
    ("linear_to_zero", "LINEAR", "LINEAR", 150, 100, 0.05, 0.0, 0.0, 0,
     lambda o: s.LinearLR(o, start_factor=1.0, end_factor=0.0, total_iters=150)),
    ("multistep", "MULTISTEP", "LINEAR", 120, 96, 0.1, 0.0, 0.0, 0,
     lambda o: s.MultiStepLR(o, [30, 60, 90], gamma=0.1)),
    ("exponential_warmup", "CONSTANT", "EXPONENTIAL", 60, 64, 0.2, 0.002, 0.0, 50, growing),
    ("one_cycle", "ONE_CYCLE", "LINEAR", 200, 128, 0.1, 0.0, 0.0, 0.1,
     lambda o: s.OneCycleLR(o, 0.1, total_steps=200, pct_start=0.1, cycle_momentum=False)),
    ("one_cycle_odd", "ONE_CYCLE", "LINEAR", 177, 97, 0.3, 0.0, 0.0, 0.3,
     lambda o: s.OneCycleLR(o, 0.3, total_steps=177, pct_start=0.3, cycle_momentum=False)),
    ("inverse_sqrt", "INVERSE_SQRT", "LINEAR", 200, 64, 5e-4, 0.0, 0.0, 40,
     lambda o: s.LambdaLR(o, lambda k: k / 40 if k < 40 else (40 / k) ** 0.5)),
    ("noam", "NOAM", "LINEAR", 200, 32, 1.0, 0.0, 0.0, 40, lambda o: s.LambdaLR(o, noam)),
]


def main():
    print(f"/* Made by schedule_pytorch.py with torch {torch.__version__.split('+')[0]}. */")
    for name, _, _, n, _, peak, _, _, _, make in CASES:
        print(f"static const double {name}_rates[] = {{")
        values = [repr(float(v)) for v in rates(peak, n, make)]
        for i in range(0, n, 4):
            print("    " + ", ".join(values[i:i + 4]) + ",")
        print("};")
    print("static const struct pytorch_case pytorch_cases[] = {")
    for name, kind, curve, n, batch, peak, start, end, w, _ in CASES:
        print(f"    {{\"{name}\", BST_SCHEDULE_{kind}, BST_WARMUP_{curve}, {n}, {batch}, {peak!r}, "
              f"{start!r},\n     {end!r}, {w!r}, {name}_rates}},")
    print("};")


main()
