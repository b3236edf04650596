#!/usr/bin/env python3
"""Prints schedule_pytorch.inc: rates of PyTorch's own schedulers, update by update, with a constant
batch. Run by hand when a case is added; the tests read the checked-in output only.

    python3 tests/unit/schedule_pytorch.py > tests/unit/schedule_pytorch.inc
"""
import torch
from torch.optim import lr_scheduler as s


def rates(lr, n, make, at):
    opt = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    sched = make(opt)
    out = []
    for k in range(n):
        if k in at:
            out.append((k, opt.param_groups[0]["lr"]))
        opt.step()
        sched.step() if k + 1 < n else None
    return out


def warm(opt, start, w, then):
    up = s.LinearLR(opt, start_factor=start, end_factor=1.0, total_iters=w)
    return s.SequentialLR(opt, [up, then], milestones=[w])


def spread(n, extra=()):
    step = max(1, n // 60)
    return sorted({k for k in (*range(0, n, step), 1, 2, 3, n - 3, n - 2, n - 1, *extra) if 0 <= k < n})


# name, kind, updates, batch, peak, start, end ratio, warm-up updates, extra, maker
CASES = [
    ("cosine", "COSINE", 1000, 128, 0.1, 0.0, 0.0, 0, (), lambda o: s.CosineAnnealingLR(o, 1000)),
    ("cosine_odd_batch", "COSINE", 777, 97, 0.3, 0.0, 0.01, 0, (),
     lambda o: s.CosineAnnealingLR(o, 777, eta_min=0.003)),
    ("warm_cosine", "COSINE", 900, 307, 0.4, 0.04, 0.0, 90, (89, 90, 91),
     lambda o: warm(o, 0.1, 90, s.CosineAnnealingLR(o, 810))),
    ("linear", "LINEAR", 1000, 256, 0.1, 0.0, 0.01, 0, (),
     lambda o: s.LinearLR(o, start_factor=1.0, end_factor=0.01, total_iters=1000)),
    ("linear_to_zero", "LINEAR", 500, 100, 0.05, 0.0, 0.0, 0, (),
     lambda o: s.LinearLR(o, start_factor=1.0, end_factor=0.0, total_iters=500)),
    ("multistep", "MULTISTEP", 300, 96, 0.1, 0.0, 0.0, 0, (99, 100, 101, 199, 200, 249, 250),
     lambda o: s.MultiStepLR(o, [100, 200, 250], gamma=0.1)),
    ("one_cycle", "ONE_CYCLE", 1000, 128, 0.1, 0.0, 0.0, 0.1, (50, 98, 99, 100, 500),
     lambda o: s.OneCycleLR(o, 0.1, total_steps=1000, pct_start=0.1, cycle_momentum=False)),
    ("one_cycle_odd", "ONE_CYCLE", 777, 97, 0.3, 0.0, 0.0, 0.3, (),
     lambda o: s.OneCycleLR(o, 0.3, total_steps=777, pct_start=0.3, cycle_momentum=False)),
    ("inverse_sqrt", "INVERSE_SQRT", 2000, 64, 5e-4, 0.0, 0.0, 400, (399, 400, 401),
     lambda o: s.LambdaLR(o, lambda k: k / 400 if k < 400 else (400 / k) ** 0.5)),
    ("noam", "NOAM", 5000, 32, 1.0, 0.0, 0.0, 400, (398, 399, 400, 1599),
     lambda o: s.LambdaLR(o, lambda k: 512 ** -0.5 * min((k + 1) ** -0.5, (k + 1) * 400 ** -1.5))),
]


def main():
    print(f"/* Made by schedule_pytorch.py with torch {torch.__version__.split('+')[0]}. */")
    for name, kind, n, batch, peak, start, end, w, extra, make in CASES:
        print(f"static const struct rate {name}_rates[] = {{")
        for k, lr in rates(peak, n, make, set(spread(n, extra))):
            print(f"    {{{k}, {lr!r}}},")
        print("};")
    print("static const struct pytorch_case pytorch_cases[] = {")
    for name, kind, n, batch, peak, start, end, w, extra, make in CASES:
        print(f"    {{\"{name}\", BST_SCHEDULE_{kind}, {n}, {batch}, {peak!r}, {start!r}, {end!r}, {w!r}, "
              f"{name}_rates,\n     sizeof {name}_rates / sizeof {name}_rates[0]}},")
    print("};")


main()
