"""A real sweep under its view: study_test.py BSTUNE [TEST…]"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from terminal import PATIENCE, Terminal, run

BSTUNE = os.path.abspath(sys.argv[1])
TINY = {"model.name": "resnet8", "model.width": 4, "data.format": "shapes", "data.image_size": 12,
        "data.train_count": 640, "data.eval_count": 64, "devices.threads": 1, "warmup_epochs": 1,
        "devices.backend": "cpu"}


class Sweep:
    def __init__(self, epochs=2):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="bst-view-"))
        self.env = {"BSTUNE_SOCKET_DIR": str(self.path / "s"), "OMP_NUM_THREADS": "1"}
        self.args = [BSTUNE, "sweep", "quickstart", "--batch", "64,16", "--epochs", str(epochs), "--run-dir",
                     str(self.path / "w"), *[x for k, v in TINY.items() for x in ("--set", f"{k}={v}")]]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        end = time.monotonic() + PATIENCE
        while self.processes() and time.monotonic() < end:
            time.sleep(0.01)
        shutil.rmtree(self.path, ignore_errors=True)

    def processes(self):
        """Those that have this sweep's folder in their arguments."""
        found = []
        for p in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (p / "cmdline").read_bytes()
                over = (p / "stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
            except OSError:
                continue
            if str(self.path).encode() in words and not over and int(p.name) != os.getpid():
                found.append(int(p.name))
        return found

    def view(self, *more, width=80, height=24):
        return Terminal(list(more) or self.args, width, height, env=self.env, cwd=self.path)

    def attach(self, *more):
        return self.view(BSTUNE, "attach", str(self.path / "w"), *more)


def side_by_side():
    with Sweep() as s:
        t = s.view()
        t.wait(lambda: "✓ complete" in t.text() and t.text().count("1/1") == 2, "both runs done", 60)
        rows = [line for line in t.text().splitlines() if re.match(r"^ *[▸ ][ab] +\d", line)]
        assert [r.split()[:3] for r in rows] == [["a", "16", "1/1"], ["b", "64", "1/1"]], f"{rows}"
        # Accuracies over 64 samples are known to a dozen points: no batch is marked as better than the other.
        assert not any("choice" in r or "accurate" in r for r in rows) and sum("fastest" in r for r in rows) == 1, f"{rows}"
        assert "accuracy % over epochs" in t.text() and "over training time" in t.text()
        t.send("\x1bOB")
        t.expect("▸a")
        t.send("m")
        t.expect("train loss over training time")
        t.send("\r")
        t.expect("3 loss")
        t.expect("b00016-s1")
        t.send("q")
        t.expect("✓ complete")
        t.expect("▸a")
        t.send("?")
        t.expect("the batch above")
        t.send("\x1b")
        t.gone("the batch above")
        t.send("q")
        assert t.wait_end() == 0
        # What the sweep came to stays on the terminal.
        assert "choice and most accurate: unknown" in t.text(), t.text()
        t.close()


def leaves_it_to_go_on():
    with Sweep(epochs=40) as s:
        t = s.view()
        t.expect("● epoch")
        t.send("\r")
        t.expect("3 loss")
        t.send("q")
        t.expect("● epoch")
        t.send("q")
        assert t.wait_end() == 0
        assert "the sweep goes on: bstune attach" in t.text(), t.text()
        t.close()
        t = s.attach()
        first = re.search(r"epoch (\d+\.\d+)/40", wait_for(t, r"epoch (\d+\.\d+)/40")).group(1)
        t.wait(lambda: f"epoch {first}/40" not in t.text(), "it goes on")
        t.send("Q")
        t.expect("was started elsewhere")
        t.send("\x03")
        assert t.wait_end() == 0
        t.close()


def wait_for(t, pattern):
    t.wait(lambda: re.search(pattern, t.text()), pattern)
    return t.text()


def ends_it_after_asking():
    with Sweep(epochs=200) as s:
        t = s.view()
        t.expect("● epoch")
        t.send("\x1b[200~Qy\x1b[201~")
        t.settle()
        t.send("Qn")
        t.settle()
        assert "ends once" not in t.text() and s.processes(), "pasted, or not meant"
        t.send("Qy")
        t.expect("nobody trains", 60)
        t.send("q")
        assert t.wait_end() == 75, t.text()
        assert "goes on from here" in t.text(), t.text()
        t.close()
        assert not s.processes(), "somebody is left"


def without_a_terminal():
    with Sweep() as s:
        env = dict(os.environ, **s.env)
        out = subprocess.run(s.args, env=env, cwd=s.path, stdin=subprocess.DEVNULL, capture_output=True,
                             encoding="utf-8", timeout=120)
        assert out.returncode == 0 and "1 of 2  batch 64" in out.stdout and "\x1b" not in out.stdout, out
        out = subprocess.run([BSTUNE, "attach", "w"], env=env, cwd=s.path, stdin=subprocess.DEVNULL,
                             capture_output=True, encoding="utf-8", timeout=60)
        assert out.returncode == 0 and "2 of 2 runs are done" in out.stdout and "choice" in out.stdout, out
        header, first = [x for x in out.stdout.splitlines() if "acc %" in x or x.startswith("    16 ")]
        assert header.index("±") == re.match(r"(\s*\S+){4}", first).end() - 1, f"{header}\n{first}"


def quiet_when_over():
    """Nothing grows: nothing is sent, and next to no work is done."""
    with Sweep() as s:
        env = dict(os.environ, **s.env)
        subprocess.run(s.args, env=env, cwd=s.path, stdin=subprocess.DEVNULL, capture_output=True, check=True,
                       timeout=120)
        t = s.attach("--refresh", "0.25")
        t.expect("✓ complete")
        t.settle()
        sent = len(t.raw)
        end = time.monotonic() + 2
        while time.monotonic() < end:
            t.read(0.1)
        assert len(t.raw) == sent, f"{len(t.raw) - sent} bytes"
        t.send("q")
        assert t.wait_end() == 0
        t.close()


run([side_by_side, leaves_it_to_go_on, ends_it_after_asking, without_a_terminal, quiet_when_over])
