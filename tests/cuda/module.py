#!/usr/bin/env python3
"""cuda.module: the module as it is shipped. It depends on no C++ library, says in plain words what is
missing, and, on the drop-in fakes, trains as the reference does.

    module.py BSTUNE MODULE FAKES KERNELS
"""
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

PRESET = """\
name: Module
model: {{name: resnet8}}
data: {{format: idx, path: {data}}}
devices: {{backend: {backend}, count: {count}, memory: {memory}}}
global_batch_size: {batch}
learning_rate: 0.05
lr_scheduler: constant
warmup_steps: 0
max_steps: {steps}
seed: 3
augment: none
"""
bad = []


def check(what, good):
    if not good:
        bad.append(what)


def idx(path, dims, values):
    path.write_bytes(struct.pack(">BBBB", 0, 0, 8, len(dims)) + struct.pack(f">{len(dims)}I", *dims) + bytes(values))


def make_data(folder):
    """Images whose mean tells the class, 96 and 24 of them."""
    for part, n in (("train", 96), ("t10k", 24)):
        labels = [i * 7 % 10 for i in range(n)]
        pixels = [(l * 23 + (i * 31 + p * 17) % 29) % 256 for i, l in enumerate(labels) for p in range(784)]
        idx(folder / f"{part}-images-idx3-ubyte", (n, 28, 28), pixels)
        idx(folder / f"{part}-labels-idx1-ubyte", (n,), labels)


def run(bstune, folder, name, env=None, **keys):
    values = {"backend": "cuda", "count": 1, "memory": 0, "batch": 32, "steps": 4, "data": folder / "data", **keys}
    preset = folder / f"{name}.yaml"
    text = PRESET.format(**values)
    if not values["memory"]:
        text = text.replace(", memory: 0", "")
    preset.write_text(text)
    r = subprocess.run([bstune, "run", str(preset), "--headless", "--run-dir", str(folder / name)],
                       capture_output=True, text=True, timeout=120, env={**os.environ, **(env or {})})
    return r.returncode, r.stdout + r.stderr


def updates(folder, name):
    lines = (folder / name / "metrics.jsonl").read_text().splitlines()
    return [m for m in map(json.loads, lines) if m["type"] == "update"]


def losses(folder, name):
    return [m["loss"] for m in updates(folder, name)]


def check_links(module):
    out = subprocess.run(["readelf", "-d", module], capture_output=True, text=True, check=True).stdout
    needed = re.findall(r"NEEDED.*\[(.*?)\]", out)
    check(f"the module needs {needed}", needed and not any("stdc++" in n or "libcuda.so" in n for n in needed))


def check_words(bstune, module, folder):
    code, text = run(bstune, folder, "nowhere", {"BSTUNE_MODULE_DIR": str(folder)})
    check(f"no module: {code} {text}", code != 0 and "backend_cuda.so is not there" in text)
    broken = folder / "broken"
    broken.mkdir()
    content = pathlib.Path(module).read_bytes()
    check("the module names cuDNN", b"libcudnn.so.9\0" in content)
    (broken / "backend_cuda.so").write_bytes(content.replace(b"libcudnn.so.9\0", b"libcudnn.so.X\0"))
    code, text = run(bstune, folder, "lacks", {"BSTUNE_MODULE_DIR": str(broken)})
    check(f"no cuDNN: {code} {text}", code != 0 and "needs libcudnn.so.X, which is not on this machine" in text)
    (broken / "backend_cuda.so").write_bytes(b"\x7fELF and nothing more")
    code, text = run(bstune, folder, "torn", {"BSTUNE_MODULE_DIR": str(broken)})
    check(f"a torn file: {code} {text}", code != 0 and "cannot be loaded" in text)


def check_no_device(bstune, folder, fakes):
    code, text = run(bstune, folder, "nodevice", {**fakes, "BST_FAKE_DEVICES": "2"}, count=3)
    check(f"three ranks on two devices: {code} {text}", code != 0 and "rank 2 needs a GPU of its own" in text)
    code, text = run(bstune, folder, "tiny", {**fakes, "BST_FAKE_DEVICES": "1", "BST_FAKE_MEM": "1M"})
    check(f"a device that is too small: {code} {text}", code != 0 and "memory" in text)
    # Room for the parameters' blocks and a part of the batch: the batch is reached by accumulation.
    code, text = run(bstune, folder, "small", {**fakes, "BST_FAKE_DEVICES": "1", "BST_FAKE_MEM": "6M"})
    check(f"a device for a part of the batch: {code} {text}", code == 0)
    if not code:
        steps = {m["gradient_accumulation_steps"] for m in updates(folder, "small")}
        check(f"accumulation {steps}", len(steps) == 1 and min(steps) > 1)


def check_training(bstune, folder, fakes):
    code, text = run(bstune, folder, "ref", backend="ref")
    check(f"ref: {code} {text}", code == 0)
    want = losses(folder, "ref")
    for count in (1, 2, 4):
        name = f"cuda{count}"
        code, text = run(bstune, folder, name, {**fakes, "BST_FAKE_DEVICES": "4", "BST_FAKE_SEED": str(count)}, count=count)
        if code:
            bad.append(f"{name}: {code} {text}")
            continue
        got = losses(folder, name)
        check(f"{name}: {len(got)} updates", len(got) == len(want) == 4)
        # A rank's batch norm sees its own part: only the whole batch compares to the bit's neighbourhood.
        allowed = 2e-4 if count == 1 else 0.2
        far = max(abs(a - b) / b for a, b in zip(got, want))
        check(f"{name}: losses {got}, ref {want}", far <= allowed)
        check(f"{name}: leaks: {text}", "alive" not in text)


def check_sequences(bstune, folder, fakes):
    """A shipped preset over sequences, made small: without batch norm two devices compute what one does."""
    small = ["model.width=32", "global_batch_size=64", "max_steps=12", "warmup_steps=0", "learning_rate=0.01", "eval_interval=12st"]
    env = {**os.environ, **fakes, "BST_FAKE_DEVICES": "2", "BSTUNE_PRESET_DIR": str(pathlib.Path(__file__).parents[2] / "presets")}
    want = None
    for backend, count, precision, allowed in (("cpu", 1, "fp32", 0), ("cuda", 1, "fp32", 1e-4), ("cuda", 2, "fp32", 1e-4),
                                               ("cuda", 2, "bf16", 2e-2)):
        name = f"addition-{backend}{count}-{precision}"
        keys = small + [f"devices.backend={backend}", f"devices.count={count}", f"precision={precision}"]
        r = subprocess.run([bstune, "run", "quickstart-addition", "--headless", "--run-dir", str(folder / name)] +
                           [word for key in keys for word in ("--set", key)],
                           capture_output=True, text=True, timeout=120, env=env)
        if r.returncode:
            bad.append(f"{name}: {r.returncode} {r.stdout}{r.stderr}")
            continue
        got = losses(folder, name)
        want = want or got
        check(f"{name}: {len(got)} updates", len(got) == len(want) == 12)
        check(f"{name}: losses {got}", got[-1] < 0.8 * got[0])
        check(f"{name}: losses {got}, cpu {want}", max(abs(a - b) / b for a, b in zip(got, want)) <= allowed)
        check(f"{name}: leaks: {r.stderr}", "alive" not in r.stderr)


def main():
    bstune, module, fake_dir, kernels = sys.argv[1:5]
    fakes = {"LD_LIBRARY_PATH": fake_dir, "BST_FAKE_KERNELS": kernels, "BST_FAKE_LEAKS": "1"}
    folder = pathlib.Path(tempfile.mkdtemp())
    try:
        (folder / "data").mkdir()
        make_data(folder / "data")
        check_links(module)
        check_words(bstune, module, folder)
        check_no_device(bstune, folder, fakes)
        check_training(bstune, folder, fakes)
        check_sequences(bstune, folder, fakes)
    finally:
        shutil.rmtree(folder)
    for line in bad:
        print(line)
    print(f"{len(bad)} failure(s)")
    return 1 if bad else 0


sys.exit(main())
