#!/usr/bin/env python3
"""cuda.console: the shipped module behind the console, in a terminal, on four virtual GPUs.

    console_test.py BSTUNE FAKES KERNELS PICTURES SOURCE [CASE…]
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BSTUNE, FAKES, KERNELS, PICTURES, SOURCE = map(os.path.abspath, sys.argv[1:6])
sys.path.insert(0, os.path.join(SOURCE, "tests/tui"))
del sys.argv[2:6]
from terminal import Terminal, run  # noqa: E402

# Some milliseconds an update; quickstart otherwise.
SMALL = {
    "devices.backend": "cuda", "devices.count": 4, "devices.timeout": 20, "model.width": 4, "data.format": "shapes",
    "data.image_size": 12, "data.train_count": 640, "data.eval_count": 16, "global_batch_size": 64,
    "max_epochs": 4000, "warmup_epochs": 50, "eval_interval": "never", "checkpoint_interval": "never",
}


def settings(values):
    return [a for k, v in values.items() for a in ("--set", f"{k}={v}")]


class Machine:
    """Virtual GPUs, a folder with runs."""

    def __init__(self, **fake):
        self.place = tempfile.mkdtemp(prefix="bst-cuda-")
        self.env = {"BSTUNE_SOCKET_DIR": self.place + "/s", "OMP_NUM_THREADS": "1", "BSTUNE_CONFIG": "",
                    "LD_LIBRARY_PATH": FAKES, "BST_FAKE_KERNELS": KERNELS, "BST_FAKE_DEVICES": "4"}
        self.env.update({f"BST_FAKE_{k}": str(v) for k, v in fake.items()})
        self.t = None
        self.dir = self.place + "/runs/quickstart-1"

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if self.t:
            self.t.close()
        try:
            os.kill(self.info()["pid"], signal.SIGKILL)
        except (OSError, ValueError):
            pass
        shutil.rmtree(self.place, ignore_errors=True)

    def console(self, width=200, height=60, trains=True, **more):
        args = [BSTUNE, "run", "quickstart", *settings({**SMALL, **more})]
        self.t = Terminal(args, width, height, env=self.env, cwd=self.place)
        if trains:
            self.t.wait(lambda: "● training" in self.t.text(), "training")
        return self.t

    def headless(self, preset="quickstart", name="quickstart-1", extra=(), **more):
        self.dir = f"{self.place}/runs/{name}"
        args = [BSTUNE, "run", preset, "--headless", "--run-dir", self.dir, *extra, *settings(more)]
        r = subprocess.run(args, cwd=self.place, env={**os.environ, **self.env}, capture_output=True,
                           encoding="utf-8", timeout=150)
        return r.returncode, r.stdout + r.stderr

    def info(self):
        with open(self.dir + "/run.json", encoding="utf-8") as f:
            return json.load(f)

    def lines(self, file):
        with open(f"{self.dir}/{file}", encoding="utf-8") as f:
            return [json.loads(x) for x in f.read().split("\n")[:-1]]

    def updates(self):
        return [m for m in self.lines("metrics.jsonl") if m["type"] == "update"]

    def losses(self):
        return [u["loss"] for u in self.updates()]

    def whole(self, values):
        """The losses of the run that nothing happens to."""
        code, text = self.headless(name="whole", **values)
        assert code == 0, text
        return self.losses()

    def goes_on(self, want):
        """The run "cut", resumed without the fault, has the losses of the unbroken one."""
        del self.env["BST_FAKE_FAIL"]
        code, text = self.headless(preset=f"{self.dir}/preset.yaml", name="cut", extra=["--resume"])
        assert code == 0, text
        assert self.losses() == want

    def status(self):
        r = subprocess.run([BSTUNE, "status", "--json", "quickstart-1"], cwd=self.place,
                           env={**os.environ, **self.env}, capture_output=True, encoding="utf-8", timeout=60)
        assert r.returncode == 0, r.stdout + r.stderr
        return json.loads(r.stdout)


def arm(t, keys, text):
    """What arms a change, its proposal, and the moment in which y is not heard."""
    t.send(keys)
    t.expect(text)
    t.expect("y apply")
    end = time.monotonic() + 0.5
    t.wait(lambda: time.monotonic() > end, "y is heard")
    t.send("y")


def bars(t):
    """Lines of the devices' pane that show memory: a bar, used of limit."""
    return re.findall(r"[█▏▎▍▌▋▊▉░▒▓]\s*[\d.]+(?: [KMG]iB)?\s*/\s*[\d.]+ [KMG]iB", t.text())


def devices_alone(t):
    """The devices' pane on the whole screen."""
    for _ in range(8):
        if re.search(r"▸1 devices", t.text()):
            break
        before = t.text()
        t.send("\t")
        t.wait(lambda: t.text() != before, "another pane")
    t.send("\r")
    t.expect("planned")


def four_bars():
    with Machine() as m:
        t = m.console()
        t.expect("4 × cuda")
        t.wait(lambda: len(bars(t)) == 4, "four memory bars")
        devices_alone(t)
        t.wait(lambda: len(bars(t)) == 4 and t.text().count("Fake H100") == 4, "four devices at length")
        t.wait(lambda: re.search(r"busy\s+\d+ %", t.text()), "utilisation by NVML")
        assert re.search(r"temp\s+[\d.]+ °C", t.text()) and re.search(r"power\s+[\d.]+ W", t.text()), t.text()
        devices = m.status()["devices"]
        for d in devices:
            assert d["memory_used"] == d["memory_planned"] > 0, d
            assert d["driver_memory_used"] >= d["memory_used"] and d["driver_memory_total"] == 64 << 20, d


def what_nvml_does_not_know():
    fail = ",".join(f"nvmlDeviceGet{c}:1+:3" for c in ("PowerUsage", "Temperature", "UtilizationRates"))
    with Machine(FAIL=fail) as m:
        t = m.console()
        devices_alone(t)
        t.wait(lambda: re.search(r"busy\s+n/a", t.text()), "no utilisation")
        assert re.search(r"temp\s+n/a", t.text()) and re.search(r"power\s+n/a", t.text()), t.text()
        assert all(d["power"] is None for d in m.status()["devices"])


def twenty_percent():
    with Machine() as m:
        t = m.console()
        arm(t, "+", "batch 64 → 77 (+20 %)")
        t.expect("in force since update")
        n = int(re.search(r"since update (\d+)", t.text()).group(1))
        t.wait(lambda: m.updates()[-1]["update"] > n + 1, "it goes on")
        used = {u["update"]: u for u in m.updates()}
        assert (used[n - 1]["global_batch_size"], used[n]["global_batch_size"]) == (64, 77), n
        # What the ranks took, not what they were asked for: 20, 19, 19 and 19 samples in one pass.
        assert used[n]["samples"] - used[n - 1]["samples"] == 77
        assert (used[n]["micro_batch_size"], used[n]["gradient_accumulation_steps"]) == (20, 1), used[n]
        entry = m.lines("journal.jsonl")[0]
        assert entry["update"] == n and entry["outcome"] == "applied", entry


def one_device_too_small():
    # The preset says that there is room, and device 3 knows better.
    with Machine(MEM="64M,64M,64M,6M") as m:
        t = m.console(**{"devices.memory": "1GiB", "global_batch_size": 32, "gradient_accumulation_steps": 1})
        before = m.status()["devices"]
        arm(t, ":batch =4000\r", "batch 32 → 4000")
        t.wait(lambda: re.search(r"BST-\d+", t.text()) and "GPU 3" in t.text(), "the refusal, and whose it was")
        n = m.updates()[-1]["update"]
        t.wait(lambda: m.updates()[-1]["update"] > n + 2, "it goes on")
        assert {u["global_batch_size"] for u in m.updates()} == {32}
        after = m.status()["devices"]
        assert [d["memory_used"] for d in after] == [d["memory_used"] for d in before], (before, after)
        assert m.lines("journal.jsonl")[-1]["outcome"] == "refused", m.lines("journal.jsonl")


def context_lost():
    """A forward pass on device 2 meets an illegal address: rank 0's state is saved, and is what goes on."""
    values = {**SMALL, "max_epochs": 1, "warmup_epochs": 0, "global_batch_size": 32, "seed": 5}
    with Machine() as m:
        want = m.whole(values)
        m.env["BST_FAKE_FAIL"] = "bst_softmax_f32@2:12:late=700"
        code, text = m.headless(name="cut", **values)
        assert code == 1 and "BST-708" in text, (code, text)
        assert re.search(r"rank 2: GPU-[0-9a-f]{8}-.*CUDA error 700", text), text
        assert "saved at update 11" in text, text
        m.goes_on(want)


def context_lost_in_the_console():
    with Machine(FAIL="bst_softmax_f32@2:9:late=719") as m:
        t = m.console(trains=False)
        t.wait(lambda: "BST-708" in t.text(), "the diagnostic")
        assert os.listdir(m.dir + "/checkpoints")
        assert "GPU-" in t.text(), t.text()


def optimizer_cut_short():
    """Half an optimizer step on device 2: what is there is no state, and the last checkpoint stands."""
    values = {**SMALL, "max_epochs": 1, "warmup_epochs": 0, "global_batch_size": 32, "seed": 5,
              "checkpoint_interval": "5st", "weight_decay_all": "true"}  # one call of the optimizer an update
    with Machine() as m:
        want = m.whole(values)
        m.env["BST_FAKE_FAIL"] = "bst_optim@2:12:late=700"
        code, text = m.headless(name="cut", **values)
        assert code == 1 and "BST-708" in text and "--resume goes on from update 10" in text, (code, text)
        m.goes_on(want)


def an_update_taken_again():
    """A collective fails once: the same samples are taken again, by new communicators."""
    values = {**SMALL, "max_epochs": 1, "warmup_epochs": 0, "global_batch_size": 32, "seed": 5}
    with Machine() as m:
        want = m.whole(values)
        m.env["BST_FAKE_FAIL"] = "ncclAllReduce@1:9:late=3"
        code, text = m.headless(name="cut", **values)
        assert code == 0 and "BST-707" in text, (code, text)
        assert m.losses() == want


def late_and_at_once():
    """A run that looks at results two updates late writes what one does that waits for each (as --trace-samples
    makes it): evaluations, checkpoints and changes at their samples, every number under its own update."""
    values = {**SMALL, "max_epochs": 1, "warmup_epochs": 0, "global_batch_size": 32, "seed": 5, "eval_interval": "5st",
              "checkpoint_interval": "3st", "precision": "fp16",
              "changes": '[{at: 7st, command: "batch +20%"}, {at: 11st, command: "lr *0.5"}]'}
    with Machine() as m:
        code, text = m.headless(name="late", **values)
        assert code == 0, text
        late = m.lines("metrics.jsonl"), m.lines("journal.jsonl")
        code, text = m.headless(name="at-once", extra=["--trace-samples", m.place + "/trace"], **values)
        assert code == 0, text
        at_once = m.lines("metrics.jsonl"), m.lines("journal.jsonl")
        clock = {"elapsed", "samples_per_sec", "data_wait", "seconds", "wall", "crc", "time"}
        for a, b in zip(late, at_once):
            a, b = ([{k: v for k, v in line.items() if k not in clock} for line in x if line.get("type") != "advice"]
                    for x in (a, b))
            for x, y in zip(a, b):
                assert x == y, (x, y)
            assert len(a) == len(b), (a[len(b):], b[len(a):])
        u = [x for x in late[0] if x["type"] == "update"]
        assert [x["update"] for x in u] == list(range(1, len(u) + 1))
        assert {x["global_batch_size"] for x in u[:-1]} == {32, 38}, u


def chosen_devices():
    values = {**SMALL, "max_steps": 2, "warmup_epochs": 0}
    del values["max_epochs"], values["devices.count"]
    with Machine() as m:
        code, text = m.headless(**{**values, "devices.list": "3,1"})
        assert code == 0, text
        with open(m.dir + "/status.json", encoding="utf-8") as f:
            assert len(json.load(f)["devices"]) == 2
        code, text = m.headless(name="b", **{**values, "devices.list": "3,4"})
        assert code == 2 and "rank 1 is to have GPU 4, but 4 are visible" in text, (code, text)
        code, text = m.headless(name="c", **{**values, "devices.list": "GPU-0123abcd"})
        assert code == 2 and "no GPU is called GPU-0123abcd" in text, (code, text)
        code, text = m.headless(name="d", **{**values, "devices.count": 5})
        assert code == 2 and "rank 4 needs a GPU of its own, but 4 are visible" in text, (code, text)


def without_nccl():
    """One GPU needs no NCCL; several say that they do."""
    with Machine() as m:
        fakes = m.place + "/fakes"
        shutil.copytree(FAKES, fakes, symlinks=True, ignore=shutil.ignore_patterns("libnccl*"))
        os.symlink("/dev/null", fakes + "/libnccl.so.2")  # in front of a real one
        m.env["LD_LIBRARY_PATH"] = fakes
        values = {**SMALL, "max_steps": 2, "warmup_epochs": 0}
        del values["max_epochs"]
        code, text = m.headless(**{**values, "devices.count": 1})
        assert code == 0, text
        code, text = m.headless(name="two", **{**values, "devices.count": 2})
        assert code == 2 and "several GPUs need NCCL" in text, (code, text)


def ddp_2048():
    """The preset of four A100 as it is, but for the pictures' size and the width of the net."""
    with Machine(NAME="NVIDIA A100-SXM4-80GB", SM=80) as m:
        os.mkdir(m.place + "/pictures")
        subprocess.run([PICTURES, m.place + "/pictures", "4", "16", "40"], check=True, timeout=60)
        code, text = m.headless("a100x4-ddp-2048", **{
            "devices.backend": "cuda", "data.path": m.place + "/pictures", "data.image_size": 32, "model.width": 4,
            "max_steps": 1, "eval_interval": "never", "checkpoint_interval": "never"})
        assert code == 0, text
        u = m.updates()
        assert [x["samples"] for x in u] == [2048], u
        assert u[0]["micro_batch_size"] * u[0]["gradient_accumulation_steps"] >= 512, u
        with open(m.dir + "/status.json", encoding="utf-8") as f:
            names = [d["name"] for d in json.load(f)["devices"]]
        assert names == ["NVIDIA A100-SXM4-80GB"] * 4, names


run([four_bars, what_nvml_does_not_know, twenty_percent, one_device_too_small, context_lost,
     context_lost_in_the_console, optimizer_cut_short, an_update_taken_again, late_and_at_once, chosen_devices, without_nccl, ddp_2048])
