#!/usr/bin/env python3
"""Runs over sequences beside PyTorch's: the same nets, weights, samples, order and settings, under AdamW and LAMB.

usage: seq_runs.py check [BUILD [CASE]]   compares the two, in full: needs the driver, built in BUILD (build);
                                          CASE: only those whose names begin so
       seq_runs.py write [BUILD]          writes tests/net/seq_runs.inc, which net.seq_runs.* compare with

Needs torch, transformers and safetensors. What is compared, and how, is parity.py's; the nets are those of
seq_models.py. `check` starts from weights that PyTorch made, read from a safetensors file under its own names; `write`
from the trainer's. Samples are the trainer's: the driver tells them. AdamW is torch.optim's; LAMB is written out below.
transformer alone has ReLUs, and with them the points that parity.py tells of: gpt's and bert's GELU is smooth.
What an update makes of the state is compared with what float64 makes of bstune's own gradient: of the gradient itself
the errors are reported, and AdamW makes whole steps of the smallest numbers, right or wrong.
"""
import contextlib
import os
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch.nn.attention import SDPBackend, sdpa_kernel

import parity
from seq_models import IGNORED, Sizes, Translator, bert, gpt

UPDATES = 20
BETAS = (0.9, 0.999)
BLOCKS = ("exp_avg", "exp_avg_sq")


class Lamb(torch.optim.Optimizer):
    """You et al. 2020, algorithm 2, with both corrections of bias; the ratio is 1 where nothing decays."""

    def __init__(self, groups, lr, betas, eps):
        super().__init__(groups, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (b1, b2), decay = group["betas"], group["weight_decay"]
            for p in group["params"]:
                s = self.state[p]
                if not s:
                    s.update(step=torch.tensor(0.0), exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
                s["step"] += 1
                t, m, v = float(s["step"]), s["exp_avg"], s["exp_avg_sq"]
                m.mul_(b1).add_(p.grad, alpha=1 - b1)
                v.mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                u = (m / (1 - b1**t)) / ((v / (1 - b2**t)).sqrt() + group["eps"]) + decay * p
                ratio = float(p.norm() / u.norm()) if decay and p.norm() > 0 and u.norm() > 0 else 1.0
                p.sub_(u, alpha=group["lr"] * ratio)


OPTIMIZERS = {"adamw": torch.optim.AdamW, "lamb": Lamb}


class SeqCase:
    file, ranks, quantile = "seq_runs.inc", 1, 0.5
    other = "with its plain attention, without oneDNN"

    def __init__(self, name, net, sizes, data, length, batch, optimizer, lr, micro=1, decay=0.01, epsilon=1e-8,
                 smoothing=0.0, clip=0.0, clip_interval=1, from_torch=False):
        self.name, self.net, self.sizes, self.format, self.length = name, net, sizes, data, length
        self.batch, self.micro, self.updates, self.points = batch, micro, UPDATES, list(range(UPDATES))
        self.optimizer, self.lr, self.decay, self.epsilon = optimizer, lr, decay, epsilon
        self.smoothing, self.clip, self.clip_interval, self.from_torch = smoothing, clip, clip_interval, from_torch
        self.samples = None

    def words(self):
        s = self.sizes
        return (f"sequences {self.net} {s.width} {s.layers} {s.heads} {s.hidden} {s.positions} {s.vocabulary} "
                f"{int(s.norm_first)} {self.format} {self.length} {self.batch} {self.micro} {self.optimizer} {self.lr} "
                f"{self.decay} {self.epsilon} {self.smoothing} {self.clip} {self.clip_interval}")

    def c(self):
        s = self.sizes
        return (f'{{"{self.name}", "{self.net}", {s.width}, BST_STEM_DEFAULT, {self.batch}, {self.micro}, {self.lr}, 0, '
                f"{self.decay}, {self.smoothing}, {self.clip}, false, 0, {{{{0}}}},\n"
                f'     {{{self.length}, {s.vocabulary}, {s.layers}, {s.heads}, {s.hidden}, {s.positions}, '
                f'{str(s.norm_first).lower()}, "{self.format}", BST_OPTIMIZER_{self.optimizer.upper()}, {self.epsilon}, '
                f"{self.clip_interval}}}}}")

    def side(self, dtype):
        return SeqTorch(self, dtype)

    def build(self):
        if self.net == "transformer":
            return Translator(self.sizes)
        return {"gpt": gpt, "bert": bert}[self.net](self.sizes, "sdpa")

    def other_way(self):
        stack = contextlib.ExitStack()
        stack.enter_context(sdpa_kernel([SDPBackend.MATH]))
        stack.enter_context(torch.backends.mkldnn.flags(enabled=False))
        return stack

    def first_weights(self, driver, folder):
        path = os.path.join(folder, "first.safetensors")
        driver(self.words())
        driver("open ref64 1")
        self.fetch(driver)
        if self.from_torch:
            torch.manual_seed(1)
            save_file({n: p.detach().contiguous() for n, p in self.build().named_parameters()}, path)
        else:
            driver(f"save {path} -")
        driver("close")
        return {n: w.double() for n, w in load_file(path).items()}

    def fetch(self, driver):
        """All samples of the run: streams and labels [N, T], lengths and pair [N]."""
        n, streams = self.batch * self.updates, 1 if self.net == "gpt" else 2
        rows = torch.tensor([int(x) for x in driver(f"samples {n}")]).view(n, -1)
        t = self.length
        self.samples = ([rows[:, i * t:(i + 1) * t] for i in range(streams)], rows[:, streams * t:(streams + 1) * t],
                        rows[:, -2], rows[:, -1])


class SeqTorch:
    """PyTorch's side of a case in one precision."""

    def __init__(self, case, dtype):
        self.case, self.dtype = case, dtype
        self.net = case.build().to(dtype).train()
        if case.net == "bert":  # bstune trains padding's row too
            self.net.bert.embeddings.word_embeddings.padding_idx = None
        self.named = dict(self.net.named_parameters())
        groups = [{"params": [p], "weight_decay": case.decay if p.dim() > 1 else 0.0} for p in self.named.values()]
        self.optimizer = OPTIMIZERS[case.optimizer](groups, lr=case.lr, betas=BETAS, eps=case.epsilon)

    def load(self, weights, momenta=None):
        assert weights.keys() == self.named.keys(), weights.keys() ^ self.named.keys()
        self.optimizer.state.clear()
        with torch.no_grad():
            for n, p in self.named.items():
                p.copy_(weights[n])
                if momenta and float(momenta["step"][1]):
                    self.optimizer.state[p] = {"step": torch.tensor(float(momenta["step"][1])),
                                               **{b: momenta[f"{b}.{n}"].to(self.dtype, copy=True) for b in BLOCKS}}

    def state(self):
        weights = {n: p.detach().clone() for n, p in self.named.items()}
        steps, momenta = 0.0, {}
        for n, p in self.named.items():
            s = self.optimizer.state.get(p)
            steps = float(s["step"]) if s else 0.0
            for b in BLOCKS:
                momenta[f"{b}.{n}"] = s[b].clone() if s else torch.zeros_like(p)
        return weights, {**momenta, "step": torch.tensor([0.0, steps], dtype=self.dtype)}

    def logits(self, at, n):
        streams, _, lengths, _ = self.case.samples
        x = [s[at:at + n] for s in streams]
        if self.case.net == "gpt":
            return self.net(x[0]).logits, None
        behind = torch.arange(self.case.length)[None] >= lengths[at:at + n, None]
        if self.case.net == "transformer":
            return self.net(x[0], x[1], behind), None
        out = self.net(x[0], (~behind).long(), x[1])
        return out.prediction_logits, out.seq_relationship_logits

    def gradient(self, u):
        """Loss and gradients of update u; parts of the batch differ by one at most, the larger first."""
        c, total = self.case, 0.0
        at, (_, labels, _, pair) = u * c.batch, c.samples
        targets = int((labels[at:at + c.batch] != IGNORED).sum())
        self.net.zero_grad()
        for i in range(c.micro):
            n = c.batch // c.micro + (i < c.batch % c.micro)
            y, z = self.logits(at, n)
            loss = F.cross_entropy(y.reshape(-1, y.shape[-1]), labels[at:at + n].reshape(-1), reduction="sum",
                                   label_smoothing=c.smoothing, ignore_index=IGNORED) / targets
            if z is not None:
                loss = loss + F.cross_entropy(z, pair[at:at + n], reduction="sum") / c.batch
            loss.backward()
            total += float(loss.detach())
            at += n
        return total, {n: p.grad.detach().clone() for n, p in self.named.items()}

    def step(self, u):
        """With the gradients that are there."""
        if self.case.clip and (u + 1) % self.case.clip_interval == 0:
            torch.nn.utils.clip_grad_norm_(self.net.parameters(), self.case.clip, foreach=False)
        self.optimizer.step()

    def update(self, u):
        self.u = u
        loss, grads = self.gradient(u)
        norm = sum(float(g.double().norm()) ** 2 for g in grads.values()) ** 0.5
        self.step(u)
        return loss, norm

    def state_off(self, other):
        """The other's state against float64's step with the other's gradient: of a weight in units of rounding it and
        of a part in 100,000 of its step, of a mean in millionths."""
        self.load(*other.before)
        for n, p in self.named.items():
            p.grad = other.gradient[n].to(self.dtype)
        self.step(self.u)
        weights, momenta = self.state()
        worst = 0.0
        for n, want in weights.items():
            step = float((want - other.before[0][n]).norm())
            allowed = 2.0**-24 * float(want.norm()) + 1e-5 * step
            worst = max(worst, float((other.after[0][n].double() - want).norm()) / allowed)
        for n, want in momenta.items():
            worst = max(worst, parity.error(other.after[1][n], want) / 1e-6)
        return worst


def pairs_of_cases(sizes, lengths, batch, micro, from_torch):
    """Every net under both optimizers; the second time with everything that an update may have."""
    everything = dict(micro=micro, smoothing=0.1, clip=0.5, clip_interval=3, epsilon=1e-6, decay=0.1)
    nets = (("gpt", "gpt", "reverse", False), ("transformer", "transformer", "reverse", False),
            ("transformer, norm first", "transformer", "reverse", True), ("bert", "bert", "random", False))
    cases = []
    for (name, net, data, first), length in zip(nets, lengths):
        s = Sizes(*sizes, positions=0 if net == "transformer" else length + 3, norm_first=first)
        plain = SeqCase(f"{name}, adamw", net, s, data, length, batch, "adamw", 0.002, from_torch=from_torch)
        full = SeqCase(f"{name}, lamb, everything", net, s, data, length, batch, "lamb", 0.01, from_torch=from_torch,
                       **everything)
        swapped = name == "transformer, norm first"
        if swapped:  # so that each optimizer has each way of update
            plain.optimizer, full.optimizer = "lamb", "adamw"
            plain.lr, full.lr = full.lr, plain.lr
            plain.name, full.name = f"{name}, lamb", f"{name}, adamw, everything"
        cases += [plain, full]
    return cases


# vocabulary, width, layers, heads, hidden; tokens of a sample
SMALL = pairs_of_cases((17, 24, 2, 3, 40), (15, 12, 12, 17), 7, 3, False)
FULL = pairs_of_cases((67, 48, 2, 4, 100), (40, 24, 24, 40), 9, 4, True)

if __name__ == "__main__":
    sys.exit(parity.main(__doc__, SMALL, FULL, []))
