#!/usr/bin/env python3
"""bstune's training beside PyTorch's: the same net, weights, data, order and settings.

usage: parity.py check [BUILD [CASE]]   compares the two, in full: needs the driver, built in BUILD (build);
                                        CASE: only those whose names begin so
       parity.py ranks [BUILD [CASE]]   as check, a batch shared by several ranks: ref, cpu, and cuda on the fakes
       parity.py write [BUILD]          writes tests/net/parity.inc and parity_ranks.inc, which net.parity.* and
                                        net.ranks.cuda.states compare with

Needs torch, safetensors and the Fashion-MNIST files of Debian's dataset-fashion-mnist.

(i) ref64 against float64: after every update the distance of loss and gradient norm is at most ten times
    what float64 itself moves when its first weights are changed by a unit in the last place.
(ii) ref and cpu, one update at a time from PyTorch's own state at 20 points of a run: loss within 1e-5;
    each tensor's gradient error against float64 at most twice that of PyTorch in float32. Where the input of
    a ReLU is 0 but for rounding, its gradient is there or not, and the errors of all tensors in front of it
    are a hundred times their usual ones, on either side by chance: with some of a deep net's million inputs
    at more than every other point. Hence errors are compared by their first quartile over the points, which
    points without one decide; the share of single tensors over the bound is printed. So is the same share for
    PyTorch itself when its convolutions go another way (without oneDNN): what chance does to two right programs.

With ranks PyTorch's side is what DistributedDataParallel computes: each rank's part of the batch goes through the same
weights by itself, batch norm sees that part alone, gradients are averaged by samples, and the running statistics are
the first rank's. A whole batch in one piece is no measure for it: batch norm's gradient is a difference of numbers that
grow with 1/sqrt(variance), and at one pixel a map a rank has no more than its samples for that variance.

seq_runs.py does the same for nets over sequences, with all that follows the nets' own part here.
"""
import gzip
import math
import os
import subprocess
import sys
import tempfile
import textwrap

os.environ["OMP_WAIT_POLICY"] = "passive"  # the two sides take turns

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = "/usr/share/datasets/fashion-mnist"
MEAN, STD = float(np.float32(0.2860)), float(np.float32(0.3530))
N_JITTER = 3
POINTS = [0, 1, 2, 3, 4, 6, 8, 10, 12, 15, 18, 21, 24, 28, 32, 36, 40, 43, 46, 49]
RANKS_POINTS = [0, 1, 2, 4, 6, 9, 12, 15, 19, 24]


class Case:
    other = "without oneDNN"

    def __init__(self, name, net, width, stem, batch, micro, updates, lr=0.05, momentum=0.9, decay=5e-4,
                 smoothing=0.0, clip=0.0, nesterov=False, groups=(), ranks=0):
        self.name, self.net, self.width, self.stem = name, net, width, stem
        self.batch, self.micro, self.updates = batch, micro, updates
        self.file = "parity_ranks.inc" if ranks else "parity.inc"
        self.ranks = ranks or 1
        self.quantile = 0.25 if ranks else 0.5  # of the errors over the points, in the C test
        self.points = POINTS if updates > POINTS[-1] else list(range(len(POINTS)))
        self.lr, self.momentum, self.decay = lr, momentum, decay
        self.smoothing, self.clip, self.nesterov, self.groups = smoothing, clip, nesterov, groups

    def words(self):
        g = " ".join(f"{m} {f}" for m, f in self.groups)
        return (f"case {self.net} {self.width} {self.stem} {self.batch} {self.micro} {self.lr} {self.momentum} "
                f"{self.decay} {self.smoothing} {self.clip} {int(self.nesterov)} {g}")

    def c(self):
        g = ", ".join('{"%s", %s, -1}' % (m, f) for m, f in self.groups) or "{0}"
        return (f'{{"{self.name}", "{self.net}", {self.width}, BST_STEM_{self.stem.upper()}, {self.batch}, '
                f"{self.micro}, {self.lr}, {self.momentum}, {self.decay}, {self.smoothing}, {self.clip}, "
                f"{str(self.nesterov).lower()}, {len(self.groups)}, {{{g}}}, {{0}}}}")

    def parts(self):
        """Samples of every micro-batch, rank after rank; parts differ by one at most, the larger first."""
        def split(n, k):
            return [n // k + (i < n % k) for i in range(k)]
        return [part for share in split(self.batch, self.ranks) for part in split(share, self.micro)]

    def side(self, dtype):
        return Torch(self, dtype)

    def first_weights(self, driver, folder):
        """The trainer's own."""
        path = os.path.join(folder, "first.safetensors")
        for words in (self.words(), "open ref64 1", f"save {path} -", "close"):
            driver(words)
        return load_file(path)

    def other_way(self):
        """PyTorch's other kernels, the control."""
        return torch.backends.mkldnn.flags(enabled=False)


EVERYTHING = dict(smoothing=0.1, clip=1.0, nesterov=True, groups=(("conv1.*", 0.1), ("layer1.*", 0.2)))
# Smaller than life, so that the suite stays quick; `check` runs FULL.
SMALL = [
    Case("resnet8", "resnet8", 8, "cifar", 16, 1, 50),
    Case("resnet8, everything", "resnet8", 8, "cifar", 19, 4, 50, **EVERYTHING),
    Case("resnet50, narrow", "resnet50", 8, "imagenet", 16, 1, 10, lr=0.01),
]
FULL = [
    Case("resnet8", "resnet8", 16, "cifar", 32, 1, 50),
    Case("resnet8, everything", "resnet8", 16, "cifar", 30, 4, 50, **EVERYTHING),
    Case("resnet50, narrow", "resnet50", 8, "imagenet", 32, 1, 10, lr=0.01),
    Case("resnet50, narrow, everything", "resnet50", 8, "imagenet", 30, 4, 10, **EVERYTHING),
]


# On several devices, in fewer points. Narrow ResNet-50 has 16 samples a rank: its last maps are single pixels,
# and from 8 values a channel the loss itself is known to no more than 1e-5 in float32.
RANKS = [Case(f"resnet8, everything, {n} ranks", "resnet8", 8, "cifar", each * n, 1, 25, ranks=n, **EVERYTHING)
         for n, each in ((2, 8), (4, 8), (8, 4))]
RANKS += [Case("resnet50, narrow, 2 ranks", "resnet50", 8, "imagenet", 32, 1, 6, lr=0.01, ranks=2)]
for case in RANKS:
    case.points = RANKS_POINTS if case.net == "resnet8" else list(range(1, 20, 2))


def read_idx(name):
    with gzip.open(os.path.join(DATA, name + ".gz"), "rb") as f:
        raw = f.read()
    dims = [int.from_bytes(raw[4 + 4 * i:8 + 4 * i], "big") for i in range(raw[3])]
    return torch.from_numpy(np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(dims).copy())


class Basic(nn.Module):
    expansion = 1

    def __init__(self, n_in, n, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, n, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(n)
        self.conv2 = nn.Conv2d(n, n, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(n)
        self.downsample = shortcut(n_in, n, stride)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + (self.downsample(x) if self.downsample else x))


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, n_in, n, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, n, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(n)
        self.conv2 = nn.Conv2d(n, n, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(n)
        self.conv3 = nn.Conv2d(n, 4 * n, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * n)
        self.downsample = shortcut(n_in, 4 * n, stride)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return F.relu(self.bn3(self.conv3(y)) + (self.downsample(x) if self.downsample else x))


def shortcut(n_in, n_out, stride):
    if n_in == n_out and stride == 1:
        return None
    return nn.Sequential(nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out))


class ResNet(nn.Module):
    def __init__(self, case):
        super().__init__()
        block, counts = ((Bottleneck, (3, 4, 6, 3)) if case.net == "resnet50" else
                         (Basic, [(int(case.net[6:]) - 2) // 6] * 3))
        self.imagenet = case.stem == "imagenet"
        self.conv1 = nn.Conv2d(1, case.width, *((7, 2, 3) if self.imagenet else (3, 1, 1)), bias=False)
        self.bn1 = nn.BatchNorm2d(case.width)
        n_in, self.stages = case.width, len(counts)
        for stage, count in enumerate(counts):
            layers = []
            for i in range(count):
                layers.append(block(n_in, case.width << stage, 2 if stage and not i else 1))
                n_in = (case.width << stage) * block.expansion
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))
        self.fc = nn.Linear(n_in, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        if self.imagenet:
            x = F.max_pool2d(x, 3, 2, 1)
        for i in range(self.stages):
            x = getattr(self, f"layer{i + 1}")(x)
        return self.fc(x.mean((2, 3)))


class Torch:
    """PyTorch's side of a case in one precision."""
    images, labels = None, None

    def __init__(self, case, dtype):
        if Torch.images is None:
            raw = read_idx("train-images-idx3-ubyte")[:4096].double()
            Torch.images = ((raw / 255 - MEAN) / STD)[:, None]
            Torch.labels = read_idx("train-labels-idx1-ubyte")[:4096].long()
        self.case, self.dtype = case, dtype
        self.net = ResNet(case).to(dtype).train()
        groups = []
        for name, p in self.net.named_parameters():
            factor = next((f for m, f in case.groups if name.startswith(m.rstrip("*"))), 1.0)
            groups.append(dict(params=[p], lr=case.lr * factor, weight_decay=case.decay if p.dim() > 1 else 0.0))
        self.sgd = torch.optim.SGD(groups, lr=case.lr, momentum=case.momentum, nesterov=case.nesterov)

    def load(self, weights, momenta=None):
        state = {k: v.to(self.dtype) for k, v in weights.items()}
        missing, extra = self.net.load_state_dict(state, strict=False)
        assert not extra and all(m.endswith("num_batches_tracked") for m in missing), (missing, extra)
        self.sgd.state.clear()
        for name, p in self.net.named_parameters():
            if momenta:
                self.sgd.state[p]["momentum_buffer"] = momenta["momentum." + name].to(self.dtype)

    def state(self):
        weights = {k: v.detach().clone() for k, v in self.net.state_dict().items()
                   if not k.endswith("num_batches_tracked")}
        momenta = {"momentum." + n: self.sgd.state[p]["momentum_buffer"].clone() if p in self.sgd.state
                   else torch.zeros_like(p) for n, p in self.net.named_parameters()}
        return weights, {k: v.detach() for k, v in momenta.items()}

    def gradient(self, u):
        """Loss and gradients of update u. Of the running statistics the first rank's are kept."""
        c, at, total = self.case, u * self.case.batch, 0.0
        self.net.zero_grad()
        for i, n in enumerate(c.parts()):
            if i == c.micro:
                kept = {k: b.clone() for k, b in self.net.named_buffers()}
            x, y = Torch.images[at:at + n].to(self.dtype), Torch.labels[at:at + n]
            loss = F.cross_entropy(self.net(x), y, label_smoothing=c.smoothing) * (n / c.batch)
            loss.backward()
            total += float(loss.detach())
            at += n
        if c.ranks > 1:
            for k, b in self.net.named_buffers():
                b.copy_(kept[k])
        return total, {n: p.grad.detach().clone() for n, p in self.net.named_parameters()}

    def update(self, u):
        loss, grads = self.gradient(u)
        norm = math.sqrt(sum(float((g.double()**2).sum()) for g in grads.values()))
        if self.case.clip:
            torch.nn.utils.clip_grad_norm_(self.net.parameters(), self.case.clip, foreach=False)
        self.sgd.step()
        return loss, norm

    def state_off(self, other):
        """The other's state after the same update, in units of what the gradient's error explains, and that of the
        norm, which clipping hands to every tensor. This side has made the update."""
        worst = 0.0
        norm_error = abs(other.norm - other.exact_norm) / other.exact_norm
        for part, got in zip(self.state(), other.after):
            for k in part:
                name = k.removeprefix("momentum.")
                allowed = (1e-6 + 10 * (other.errors[name] + norm_error) if name in other.errors else
                           max(1e-5, 2 * other.statistics[name]))
                worst = max(worst, error(got[k], part[k]) / allowed)
        return worst


class Other:
    """What bstune made of one update, and what is known of its gradient."""

    def __init__(self, before, gradient, errors, statistics):
        self.before, self.gradient, self.errors, self.statistics = before, gradient, errors, statistics
        self.norm = self.exact_norm = self.after = None


class Driver:
    """bstune's side: tests/net/parity_driver.c."""

    def __init__(self, build, program="parity_driver"):
        path = os.path.join(build, "tests", program)
        self.program, self.build, self.is_there = program, build, os.access(path, os.X_OK)
        if self.is_there:
            fakes = {"BST_FAKE_DEVICES": "8", "BST_FAKE_MEM": "2G"}
            self.p = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                      cwd=os.path.join(HERE, "..", ".."), env={**fakes, **os.environ})

    def __call__(self, words):
        self.p.stdin.write(words + "\n")
        self.p.stdin.flush()
        answer = self.p.stdout.readline()
        if not answer:
            sys.exit(f"{self.program} ended at '{words}'")
        return answer.split()


def jittered(weights, seed):
    """Every weight up, down or left alone by one unit in the last place."""
    g = np.random.default_rng(seed)
    out = {}
    for k, v in weights.items():
        a = v.numpy().copy()
        way = g.integers(-1, 2, a.shape)
        a[way > 0] = np.nextafter(a[way > 0], np.inf)
        a[way < 0] = np.nextafter(a[way < 0], -np.inf)
        out[k] = torch.from_numpy(a)
    return out


def run64(case, weights, updates=0):
    """[updates, 2] losses and norms, and the state before each update."""
    t, rows, states = case.side(torch.float64), [], []
    t.load(weights)
    for u in range(updates or case.updates):
        states.append(t.state())
        rows.append(t.update(u))
    return np.array(rows), states


def spread(case, weights, rows):
    """What float64 moves under the jitter: largest so far over all runs, [updates, 2]."""
    moved = 2.0**-52 * np.abs(rows)  # a few runs may all round to the same number
    for seed in range(N_JITTER):
        moved = np.maximum(moved, np.abs(run64(case, jittered(weights, seed))[0] - rows))
    return np.maximum.accumulate(moved, 0)


def run_points(case, weights):
    """What (i) compares, and the states that (ii) starts from, which may go on for longer."""
    rows, states = run64(case, weights, case.points[-1] + 1)
    return rows[:case.updates], states


def rounded(state):
    return [{k: v.float().double() for k, v in part.items()} for part in state]


def error(got, want):
    return float((got.double() - want).norm() / want.norm()) if float(want.norm()) else 0.0


def errors(got, exact):
    """Of gradients, by name. One that is 0 but for rounding, as that of a bias of keys, which moves all scores of a
    query alike, is measured by all of them together."""
    whole = math.sqrt(sum(float(g.double().norm()) ** 2 for g in exact.values()))
    return {n: float((got[n].double() - g).norm()) / max(float(g.norm()), 1e-6 * whole) for n, g in exact.items()}


def torch_errors(case, states):
    """Errors of float32: gradients' [points, tensors], each point's running statistics by name."""
    t64, t32 = case.side(torch.float64), case.side(torch.float32)
    found, statistics = [], []
    for u in case.points:
        weights, _ = rounded(states[u])
        t64.load(weights)
        t32.load(weights)
        exact, own = t64.gradient(u)[1], t32.gradient(u)[1]
        found.append(list(errors(own, exact).values()))
        after, ours = t64.state()[0], t32.state()[0]
        statistics.append({k: error(ours[k], after[k]) for k in after if "running" in k})
    return list(exact), np.array(found), statistics


def compare(case, ours, own):
    """Ratio of the errors' first quartiles by tensor; and in words the share of single errors above twice the other's,
    with the points that have many of them."""
    over = np.array(ours) > 2 * own
    many = ", ".join(f"{u} ({100 * p:.0f} %)" for u, p in zip(case.points, over.mean(1)) if p >= 0.05)
    each = f"{100 * over.mean():.1f} % of single tensors over 2" + (f", at points {many}" if many else "")
    return np.quantile(ours, 0.25, 0) / np.quantile(own, 0.25, 0), each


def control(case, states):
    """PyTorch beside itself, by the same measure."""
    names, own, _ = torch_errors(case, states)
    with case.other_way():
        other = torch_errors(case, states)[1]
    ratio, each = compare(case, other, own)
    k = int(ratio.argmax())
    print(f"{case.name}: PyTorch {case.other}: gradient error {ratio[k]:.2f} times PyTorch's at worst ({names[k]}), "
          f"{np.median(ratio):.2f} in the median; {each}")


def open_at(driver, case, folder, backend, ranks, weights):
    path = os.path.join(folder, "start.safetensors")
    save_file({k: v.contiguous() for k, v in weights.items()}, path)
    driver(case.words())
    driver(f"open {backend} {ranks}")
    driver(f"load {path} -")


def check64(driver, case, folder):
    weights = case.first_weights(driver, folder)
    rows, states = run_points(case, weights)
    allowed = 10 * spread(case, weights, rows)
    open_at(driver, case, folder, "ref64", case.ranks, weights)
    ours = np.array([[float(x) for x in driver(f"update {u}")] for u in range(case.updates)])
    driver("close")
    off = np.abs(ours - rows)
    worst = (off / allowed).max()
    print(f"{case.name}: ref64 after {case.updates} updates: loss {rows[-1, 0]:.6f}, off by {off[-1, 0]:.2g}, float64's "
          f"jitter {allowed[-1, 0] / 10:.2g}; worst {10 * worst:.2f} times the jitter of 10 allowed")
    return worst <= 1, weights, states


def check32(driver, case, folder, states, backend):
    names, own, statistics = torch_errors(case, states)
    t64 = case.side(torch.float64)
    files = [os.path.join(folder, f) for f in ("w.safetensors", "m.safetensors", "g.safetensors")]
    driver(case.words())
    driver(f"open {backend} {case.ranks}")
    ours, worst_loss, worst_state = [], 0.0, 0.0
    for u, statistics_error in zip(case.points, statistics):
        weights, momenta = rounded(states[u])
        save_file({k: v.float().contiguous() for k, v in weights.items()}, files[0])
        save_file({k: v.float().contiguous() for k, v in momenta.items()}, files[1])
        t64.load(weights)
        exact = t64.gradient(u)[1]
        driver(f"load {files[0]} {files[1]}")
        driver(f"gradient {u}")
        driver(f"gradients {files[2]}")
        got = {n.removeprefix("momentum."): g for n, g in load_file(files[2]).items()}
        off = errors(got, exact)
        ours.append(list(off.values()))
        # the whole update: clipping, groups, the optimizer, statistics
        driver(f"load {files[0]} {files[1]}")
        other = Other((weights, momenta), got, off, statistics_error)
        loss, other.norm = (float(x) for x in driver(f"update {u}"))
        driver(f"save {files[0]} {files[1]}")
        other.after = [load_file(f) for f in files[:2]]
        t64.load(weights, momenta)
        exact_loss, other.exact_norm = t64.update(u)
        worst_loss = max(worst_loss, abs(loss - exact_loss) / abs(exact_loss))
        worst_state = max(worst_state, t64.state_off(other))
    driver("close")
    ratio, each = compare(case, ours, own)
    k = int(ratio.argmax())
    print(f"{case.name}: {backend} on {case.ranks}: loss off by {worst_loss:.2g}; gradient error {ratio[k]:.2f} times "
          f"PyTorch's at worst ({names[k]}), {np.median(ratio):.2f} in the median; {each}; "
          f"state after the update off by {worst_state:.2g} of what that explains")
    return worst_loss <= 1e-5 and ratio[k] <= 2 and worst_state <= 1


def check(driver, folder, cases):
    good = True
    for case in cases:
        ok, _, states = check64(driver, case, folder)
        good &= ok
        control(case, states)
        for backend in ("ref", "cpu"):
            good &= check32(driver, case, folder, states, backend)
    print("all within bounds" if good else "OUT OF BOUNDS")
    return 0 if good else 1


def check_ranks(driver, folder, cases):
    """The fakes' cuda has a driver of its own, where it was built."""
    good, cuda = True, Driver(driver.build, "parity_driver_cuda")
    for case in cases:
        ok, _, states = check64(driver, case, folder)
        good &= ok
        control(case, states)
        for backend in ("ref", "cpu"):
            good &= check32(driver, case, folder, states, backend)
        if cuda.is_there:
            good &= check32(cuda, case, folder, states, "cuda")
    print("all within bounds" if good else "OUT OF BOUNDS")
    return 0 if good else 1


def numbers(a):
    flat = [float(x) for x in np.asarray(a).ravel()]
    lines = [", ".join(repr(x) for x in flat[i:i + 4]) for i in range(0, len(flat), 4)]
    return "{\n    " + ",\n    ".join(lines) + "}"


def wrapped(names):
    return textwrap.fill(", ".join(f'"{n}"' for n in names), 96, initial_indent="    ", subsequent_indent="    ",
                         break_long_words=False, break_on_hyphens=False)


def write(driver, folder, cases):
    """Everything the C test needs; floats as Python writes them read back exactly."""
    version, script = torch.__version__.split("+")[0], os.path.basename(sys.argv[0])
    with open(os.path.join(HERE, cases[0].file), "w") as f:
        f.write(f"/* Written by tests/net/{script} from PyTorch {version}: do not edit. */\n")
        rows_of = []
        for i, case in enumerate(cases):
            weights = case.first_weights(driver, folder)
            rows, states = run_points(case, weights)
            names, own, _ = torch_errors(case, states)
            f.write("static const int points_%d[] = {%s};\n" % (i, ", ".join(map(str, case.points))))
            f.write("static const double rows_%d[] = %s;\n" % (i, numbers(rows)))
            f.write("static const double spread_%d[] = %s;\n" % (i, numbers(spread(case, weights, rows))))
            f.write("static const char *const names_%d[] = {\n%s};\n" % (i, wrapped(names)))
            f.write("static const double own_%d[] = %s;\n" % (i, numbers(np.quantile(own, case.quantile, 0))))
            rows_of.append((case, len(names), len(case.points)))
            print(case.name, rows[0], rows[-1])
        f.write("static const struct known known[] = {\n")
        for i, (case, n, points) in enumerate(rows_of):
            f.write(f"    {{{case.c()},\n     {case.updates}, {points}, {n}, points_{i}, rows_{i}, spread_{i}, names_{i}, own_{i}, {case.ranks}, {case.quantile}}},\n")
        f.write("};\n")
    return 0


def main(usage=__doc__, small=SMALL, full=FULL, ranks=RANKS):
    torch.set_num_threads(1)
    what = {"check": (check, [full]), "ranks": (check_ranks, [ranks]), "write": (write, [small, ranks])}
    if len(sys.argv) < 2 or sys.argv[1] not in what:
        sys.exit(usage)
    do, sets = what[sys.argv[1]]
    driver, bad = Driver(sys.argv[2] if len(sys.argv) > 2 else os.path.join(HERE, "..", "..", "build")), 0
    if not driver.is_there:
        sys.exit(f"there is no tests/{driver.program} in {driver.build}: build it first")
    with tempfile.TemporaryDirectory() as folder:
        for cases in sets:
            cases = [c for c in cases if len(sys.argv) < 4 or c.name.startswith(sys.argv[3])]
            bad |= do(driver, folder, cases) if cases else 0
    return bad


if __name__ == "__main__":
    sys.exit(main())
