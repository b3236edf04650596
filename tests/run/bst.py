"""What the tests of whole runs share: a trainer started on tiny generated data, driven and watched."""
import hashlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

BSTUNE = os.path.abspath(os.environ.get("BSTUNE", "build/bstune"))
WAIT = 120  # s; only ever reached by a failure

# Some milliseconds an update, 20 updates an epoch.
TINY = {
    "model.name": "resnet8", "model.width": 4, "data.format": "shapes", "data.image_size": 12,
    "data.train_count": 640, "data.eval_count": 64, "devices.threads": 1, "global_batch_size": 32,
    "warmup_epochs": 1, "max_epochs": 4, "devices.backend": "cpu",
}


class Fail(Exception):
    pass


def check(what, text):
    if not what:
        raise Fail(text)


def until(ready, what, seconds=WAIT):
    """Polls; gives what ready() gave."""
    end = time.monotonic() + seconds
    while True:
        got = ready()
        if got:
            return got
        if time.monotonic() > end:
            raise Fail(f"did not come within {seconds} s: {what}")
        time.sleep(0.005)


class Place:
    """A folder for one test's runs and its socket."""

    def __init__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="bst-run-"))
        self.env = dict(os.environ, BSTUNE_SOCKET_DIR=str(self.path / "s"), OMP_NUM_THREADS="1", BSTUNE_CONFIG="")
        self.runs = []

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        for r in self.runs:
            if r.process.poll() is None:
                r.process.kill()
                r.process.wait()
        if kind is None or "BST_KEEP" not in os.environ:
            shutil.rmtree(self.path, ignore_errors=True)

    def start(self, name, *more, resume=False, **settings):
        return Run(self, name, more, resume, {**TINY, **{k.replace("__", "."): v for k, v in settings.items()}})

    def cli(self, *args, stdin=None):
        p = subprocess.run([BSTUNE, *map(str, args)], env=self.env, cwd=self.path, input=stdin,
                           capture_output=True, encoding="utf-8", timeout=WAIT)
        return p.returncode, p.stdout, p.stderr


class Run:
    def __init__(self, place, name, more, resume, settings):
        self.place, self.name, self.dir = place, name, place.path / name
        args = [BSTUNE, "run", "quickstart", "--headless", "--run-dir", str(self.dir)]
        if resume:
            args.append("--resume")
        # Killed before the folder had its preset, a run has nothing but these to go on from.
        if not (resume and (self.dir / "preset.yaml").exists()):
            for k, v in settings.items():
                args += ["--set", f"{k}={v}"]
        self.out = open(place.path / f"{name}.out", "ab")
        self.process = subprocess.Popen([*args, *more], env=place.env, cwd=place.path, stdin=subprocess.DEVNULL,
                                        stdout=self.out, stderr=self.out, start_new_session=True)
        place.runs.append(self)

    def said(self):
        return pathlib.Path(self.out.name).read_text(errors="replace")

    def lines(self, file):
        try:
            data = (self.dir / file).read_bytes()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in data.split(b"\n")[:-1]]

    def metrics(self, kind="update"):
        return [m for m in self.lines("metrics.jsonl") if m["type"] == kind]

    def journal(self):
        return self.lines("journal.jsonl")

    def wait_update(self, n):
        def there():
            check(self.process.poll() is None, f"{self.name} ended early: {self.said()}")
            m = self.metrics()
            return m and m[-1]["update"] >= n
        until(there, f"update {n} of {self.name}")

    def wait_phase(self, phase):
        def there():
            got = self.status().get("phase")
            check(got == phase or self.process.poll() is None, f"{self.name} ended before {phase}: {self.said()}")
            return got == phase
        until(there, f"phase {phase} of {self.name}")

    def status(self):
        rc, out, _ = self.place.cli("status", "--json", self.dir)
        return json.loads(out) if rc == 0 else {}

    def ctl(self, *args):
        rc, out, err = self.place.cli("ctl", "--json", self.dir, *args)
        return rc, json.loads(out) if out.startswith("{") else {"text": err}

    def send(self, sig):
        self.process.send_signal(sig)

    def end(self, want=0):
        rc = self.process.wait(timeout=WAIT)
        check(rc == want, f"{self.name} ended with {rc}, not {want}: {self.said()}")
        return self

    def weights(self):
        return hashlib.sha256((self.dir / "weights.safetensors").read_bytes()).hexdigest()

    def series(self):
        """What has to be the same in every way of reaching the end."""
        keep = ("update", "samples", "loss", "learning_rate", "grad_norm", "global_batch_size")
        return [tuple(m[k] for k in keep) for m in self.metrics()]

    def socket_path(self):
        return json.loads((self.dir / "run.json").read_text())["socket"]

    def connect(self):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(WAIT)
        path = self.socket_path()

        def connected():
            try:
                s.connect(path)
                return True
            except BlockingIOError:  # the queue is full for a moment
                return False
        until(connected, "a connection")
        return s


class Client:
    """The protocol by hand."""

    def __init__(self, run, kind="console", user="ann@gpu7", readonly=False):
        self.s = run.connect()
        self.rest = b""
        self.ask({"op": "hello", "client": kind, "user": user, "readonly": readonly, "version": 1}, "hello")

    def send(self, o):
        self.s.sendall(json.dumps(o).encode() + b"\n")

    def next(self):
        while b"\n" not in self.rest:
            some = self.s.recv(65536)
            if not some:
                return None
            self.rest += some
        line, self.rest = self.rest.split(b"\n", 1)
        return json.loads(line)

    def wait(self, re):
        while True:
            o = self.next()
            check(o is not None, f"closed before {re}")
            if o.get("re") == re:
                return o

    def ask(self, o, re):
        self.send(o)
        return self.wait(re)

    def close(self):
        self.s.close()


def subprocess_many(place, n, args):
    """n processes at once; killed with the place."""
    class Held:
        def __init__(self, process):
            self.process = process
    many = [subprocess.Popen(args, env=place.env, cwd=place.path, stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
            for _ in range(n)]
    place.runs += [Held(x) for x in many]
    return many


def main(*tests):
    names = sys.argv[1:]
    bad = 0
    for t in tests:
        if names and t.__name__ not in names:
            continue
        start = time.monotonic()
        try:
            t()
            print(f"ok      {t.__name__} ({time.monotonic() - start:.1f} s)", flush=True)
        except Fail as why:
            bad += 1
            print(f"FAILED  {t.__name__}: {why}", flush=True)
    sys.exit(1 if bad else 0)


__all__ = ["Place", "Run", "Client", "Fail", "check", "until", "main", "signal", "subprocess_many", "BSTUNE", "TINY", "WAIT"]
