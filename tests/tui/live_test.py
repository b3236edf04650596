"""A real session: keys in a terminal, a trainer behind them. live_test.py BSTUNE [TEST…]"""
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from terminal import PATIENCE, Terminal, run, same_settings

BSTUNE = os.path.abspath(sys.argv[1])
# Some milliseconds an update.
TINY = {
    "model.width": 4, "data.format": "shapes", "data.image_size": 12, "data.train_count": 2560,
    "data.eval_count": 64, "devices.threads": 1, "global_batch_size": 256, "max_epochs": 4000, "warmup_epochs": 50,
    "eval_interval": "1ep", "checkpoint_interval": "never",
}


class Session:
    """A folder with runs, a console that started one."""

    def __init__(self, width=80, height=24, config=None, **more):
        self.place = tempfile.mkdtemp(prefix="bst-tui-")
        self.env = {"BSTUNE_SOCKET_DIR": self.place + "/s", "OMP_NUM_THREADS": "1"}
        if config:
            self.env["BSTUNE_CONFIG"] = self.place + "/config.yaml"
            self.write_config(config)
        args = [BSTUNE, "run", "quickstart"]
        for k, v in {**TINY, **more}.items():
            args += ["--set", f"{k.replace('__', '.')}={v}"]
        self.dir = os.path.join(self.place, "runs", "quickstart-1")
        self.t = self.terminal(args, width, height)
        self.t.wait(lambda: re.search("● training|✓ done", self.t.text()), "training")

    def write_config(self, text):
        with open(self.env["BSTUNE_CONFIG"], "w", encoding="utf-8") as f:
            f.write(text)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.t.close()
        pid = self.trainer()
        if pid:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.place, ignore_errors=True)

    def terminal(self, args, width=80, height=24):
        return Terminal(args, width, height, env=self.env, cwd=self.place)

    def attach(self, *more):
        t = self.terminal([BSTUNE, "attach", "quickstart-1", *more])
        t.expect("quickstart-1")
        return t

    def ctl(self, *args):
        return subprocess.run([BSTUNE, *args], cwd=self.place, env={**os.environ, **self.env},
                              capture_output=True, encoding="utf-8", timeout=60)

    def trainer(self):
        try:
            with open(self.dir + "/run.json", encoding="utf-8") as f:
                return json.load(f)["pid"]
        except FileNotFoundError:
            return 0

    def lines(self, file):
        with open(f"{self.dir}/{file}", encoding="utf-8") as f:
            return [json.loads(x) for x in f.read().split("\n")[:-1]]

    def updates(self):
        return [m for m in self.lines("metrics.jsonl") if m["type"] == "update"]

    def goes_on(self):
        n = self.updates()[-1]["update"]
        end = time.monotonic() + PATIENCE
        while self.updates()[-1]["update"] <= n + 2:
            assert time.monotonic() < end, "the run has stopped"
            time.sleep(0.02)


def deaf(t):
    """The moment after a question in which y is not heard."""
    asked = time.monotonic()
    t.wait(lambda: time.monotonic() - asked > 0.4, "0.4 s")


def press(t, key, text):
    """A key that arms, its proposal, and the moment in which y is not heard."""
    t.send(key)
    t.expect(text)
    t.expect("y apply")
    deaf(t)


# A warm-up that lasts for as long as a case of these looks at it, on a fast machine as well.
WARMING = {"warmup_epochs": 300}


def twenty_percent():
    with Session(**WARMING) as s:
        t = s.t
        press(t, "+", "batch 256 → 307 (+20 %)")
        # In the warm-up the rate of the next update is below the peak: both are said.
        said = re.search(r"peak (\S+) → (\S+)\s+rate (\S+) → (\S+)", t.text())
        peak, peak_then, rate, rate_then = map(float, said.groups())
        assert rate < 0.95 * peak and rate_then < 0.95 * peak_then, said.group()
        assert abs(rate_then / rate - 307 / 256) < 0.01, said.group()
        assert not os.path.exists(s.dir + "/journal.jsonl") or not s.lines("journal.jsonl"), "a proposal is no change"
        t.send("y")
        t.expect("in force since update")
        n = int(re.search(r"since update (\d+)", t.text()).group(1))
        t.expect("batch 307")
        s.goes_on()
        used = {m["update"]: m for m in s.updates()}
        batches = used[n - 1]["global_batch_size"], used[n]["global_batch_size"]
        assert batches == (256, 307), f"{batches} at update {n}"
        assert used[n]["samples"] - used[n - 1]["samples"] == 307
        entry = s.lines("journal.jsonl")[0]
        assert entry["update"] == n and entry["command"] == "batch +20%", f"{n}: {entry}"
        assert entry["source"].startswith("console "), entry["source"]
        rate = {c["key"]: (c["old"], c["new"]) for c in entry["changes"]}["learning_rate"]
        assert abs(rate[1] - rate[0] * 307 / 256) < 1e-12
        # And back, by the same road.
        press(t, "z", "batch 307 → 256")
        t.send("y")
        t.expect("in force since update")
        assert s.lines("journal.jsonl")[-1]["command"] == "undo"
        s.goes_on()
        assert s.updates()[-1]["global_batch_size"] == 256


def several_presses_and_none():
    with Session(**WARMING) as s:
        t = s.t
        press(t, "+++", "batch 256 → 442 (+73 %)")
        t.send("---")
        t.gone("y apply")
        press(t, "-", "batch 256 → 205 (-20 %)")
        t.send("\x1b")
        t.gone("y apply")
        press(t, "w", "warm-up 300 ep → 330 ep")
        t.send("\x1b")
        press(t, "]]", "peak 0.1 → 0.121")
        t.send("y")
        t.expect("peak 0.1 → 0.121 in force")
        assert len(s.lines("journal.jsonl")) == 1


def warned_before_it_is_done():
    """A tenth more than a warm-up of a tenth of the run: said with the proposal, not by the advisor after it."""
    with Session(warmup_epochs=400, max_epochs=4000) as s:
        t = s.t
        press(t, "w", "warm-up 400 ep → 440 ep")
        t.expect("BST-807 warm-up outside 5 to 10 % of the run")
        # Another kind of change waits for this one.
        t.send("]")
        t.expect("then lr *1.1")
        armed = time.monotonic()
        t.wait(lambda: time.monotonic() - armed > 0.4, "0.4 s")
        t.send("y")
        t.expect("peak 0.1 → 0.11")
        t.send("\x1b")
        s.goes_on()
        entry = s.lines("journal.jsonl")[0]
        assert entry["command"] == "warmup +10%" and entry["text"].startswith("warm-up 400 ep → 440 ep"), f"{entry}"
        assert "BST-807" in entry["text"] and len(s.lines("journal.jsonl")) == 1, f"{entry}"
        assert not [m for m in s.lines("metrics.jsonl") if m["type"] == "advice"], "it was said already"


def preset_as_one_change():
    with Session(120, 40) as s:
        t = s.t
        t.send("p")
        t.expect("a100x4-ddp-2048")
        t.expect("fixed when a run starts")
        t.expect("lr_scheduler")
        t.send("\r")
        t.expect("preset a100x4-ddp-2048:")
        t.expect("y apply")
        armed = time.monotonic()
        t.wait(lambda: time.monotonic() - armed > 0.4, "0.4 s")
        t.send("y")
        t.expect("in force since update")
        t.expect("batch 2048")
        assert len(s.lines("journal.jsonl")) == 1


def refused_with_the_sizes():
    with Session(**{"devices.memory": "4MiB", "gradient_accumulation_steps": 1, "global_batch_size": 32}) as s:
        t = s.t
        t.send(":batch =4000\r")
        t.wait(lambda: re.search(r"BST-\d+ .*refused.*MiB", t.text(), re.S), "the refusal with its sizes")
        t.send("y")
        t.settle()
        assert s.updates()[-1]["global_batch_size"] == 32


def checkpoint_and_eval():
    with Session() as s:
        s.t.send("c")
        s.t.expect("checkpoint at update")
        assert os.listdir(s.dir + "/checkpoints")
        before = sum(m["type"] == "eval" for m in s.lines("metrics.jsonl"))
        s.t.send("e")
        s.t.wait(lambda: sum(m["type"] == "eval" for m in s.lines("metrics.jsonl")) > before, "an evaluation")


def search_is_cancelled():
    with Session() as s:
        s.t.send(":lrfind 1000 5\r")
        s.t.expect("searching")
        s.t.expect("lrfind: pass")
        s.t.expect("Esc cancels")
        n = s.updates()[-1]["update"]
        s.t.send("\x1b")
        s.t.expect("cancelled")
        s.t.expect("● training")
        s.goes_on()
        s.t.wait(lambda: [e for e in s.lines("journal.jsonl") if e["command"] == "lrfind 1000 5"], "its entry")
        entry = [e for e in s.lines("journal.jsonl") if e["command"] == "lrfind 1000 5"][0]
        assert entry["outcome"] == "dropped" and entry["code"] == "BST-317", entry
        # Not an update was lost or made twice.
        numbers = [m["update"] for m in s.updates()]
        assert numbers == list(range(1, len(numbers) + 1)) and numbers[-1] > n


def rate_by_a_key():
    """The LR range test after asking, and its rate armed from where it was asked for."""
    with Session(**{"learning_rate": 0.01, "warmup_epochs": 0, "lr_scheduler": "constant", "model.classes": 3}) as s:
        t = s.t
        t.send("L")
        t.expect("LR range test?")
        deaf(t)
        t.send("y")
        t.wait(lambda: [e for e in s.lines("journal.jsonl") if e["command"] == "lrfind"], "its entry")
        t.expect("● training")
        entry, = [e for e in s.lines("journal.jsonl") if e["command"] == "lrfind"]
        assert entry["outcome"] == "done" and entry["source"].startswith("console "), entry
        # One event of it, not one from each file.
        t.send(":view events\r")
        t.expect("▸6 events")
        t.wait(lambda: sum(entry["code"] in line for line in t.text().splitlines()[2:-1]) == 1, "one event of the test")
        t.send("L")
        t.expect("LR range test?")
        if entry["code"] == "BST-315":
            t.expect("Enter arms")
            t.send("\r")
            t.expect("y apply")
        else:
            assert "Enter arms" not in t.text(), t.text()


def keys_of_ones_own():
    with Session(config="bell: false\nkeys:\n  batch-up: b\n  apply: \"u <F5>\"\n  log: none\n") as s:
        t = s.t
        t.send("+y")
        t.settle()
        assert "apply" not in t.text(), t.text()
        t.send("b")
        t.expect("batch 256 → 307 (+20 %)")
        t.expect("u apply")
        deaf(t)
        t.send("y")
        t.settle()
        assert "u apply" in t.text(), t.text()
        t.send("\x1b[15~")
        t.expect("in force since update")
        t.send("?")
        t.expect("u applies it")
        t.send("\x1b")
        said = s.ctl("keys").stdout
        assert '  apply: "u <F5>"' in said and '  log: "none"' in said and '  batch-down: "-"' in said, said
        # A mistake in it is said before a console opens.
        s.write_config("keys:\n  apply: g\n")
        wrong = s.ctl("attach", "quickstart-1")
        assert wrong.returncode == 2 and "config.yaml:2:10: error: keys: g is a key of apply and of gradient" in wrong.stderr, wrong
        assert s.ctl("status", "quickstart-1").returncode == 0, "what opens no console reads none of it"
        where = s.ctl("config", "--paths")
        assert where.returncode == 0 and where.stdout.endswith("config.yaml\n") and not where.stderr, where


def outlives_its_console():
    with Session() as s:
        os.kill(s.t.console(), signal.SIGKILL)
        assert s.t.wait_end() == 128 + signal.SIGKILL
        assert same_settings(s.t.before, s.t.termios_now())
        s.goes_on()
        t = s.attach()
        t.expect("● training")
        first = s.updates()[0]
        assert first["update"] == 1
        # The whole history, from the first epoch on.
        t.wait(lambda: re.search(r"┤|\|", t.text()), "a chart")
        os.close(t.fd)  # the terminal is closed
        t.fd = -1
        end = time.monotonic() + PATIENCE
        while not t.ended():
            assert time.monotonic() < end
            time.sleep(0.02)
        s.goes_on()
        t = s.attach()
        t.expect("● training")
        t.send("q")
        assert t.wait_end() == 0
        assert b"goes on: bstune attach quickstart-1" in t.raw
        s.goes_on()


def two_consoles_one_driver():
    with Session() as s:
        other = s.attach()
        other.expect("read-only:")
        other.send("+")
        other.expect("has the controls")
        other.settle()
        assert "y apply" not in other.text()
        press(s.t, "+", "batch 256 → 307")
        refused = s.ctl("ctl", "quickstart-1", "lr", "*0.5")
        assert refused.returncode == 1, "a change while one is armed"
        s.t.send("\x1b")
        s.t.gone("y apply")
        # What is armed here goes when another console takes the lease.
        press(s.t, "+", "batch 256 → 307")
        other.send(":take\r")
        other.gone("read-only:")
        s.t.expect("batch +20% dropped: ")
        assert re.search(r"dropped: \S+@.* has taken the controls", s.t.text()), s.t.text()
        assert "y apply" not in s.t.text()
        s.t.expect("read-only:")
        press(other, "+", "batch 256 → 307")
        other.send("y")
        other.expect("in force since update")
        s.t.expect("batch 307")
        watch = s.attach("--readonly")
        watch.expect("read-only")
        watch.send("+")
        watch.expect("read-only: this console only looks")
        watch.send("q")
        watch.wait_end()
        watch.close()
        other.close()


def trainer_dies():
    with Session() as s:
        s.t.expect("● training")
        os.kill(s.trainer(), signal.SIGKILL)
        s.t.expect("ended")
        s.t.send("+")
        s.t.expect("the run has ended")
        assert "3 loss" in s.t.text(), "the last state is readable"
        s.t.send("q")
        s.t.wait_end()
        assert b"quickstart-1" in s.t.raw[-400:]
        t = s.attach()
        t.expect("ended")
        t.expect("3 loss")
        t.expect("batch 256")
        # Killed without a word: the log's last line, how far it was, is no reason.
        assert "killed: " not in t.text(), t.text()
        t.send("q")
        assert t.wait_end() == 0
        t.close()


def stops_after_asking():
    with Session() as s:
        s.t.send("Q")
        s.t.expect("Stop the run?")
        asked = time.monotonic()
        s.t.wait(lambda: time.monotonic() - asked > 0.4, "0.4 s")
        s.t.send("y")
        s.t.expect("ended")
        assert os.listdir(s.dir + "/checkpoints"), "no checkpoint"
        s.t.send("q")
        s.t.wait_end()
        assert b"has ended" in s.t.raw


def a_finished_run():
    """Its last update is cut off (51200 = 170 x 300 + 200): the batch in force is the plan's all the same."""
    with Session(**{"max_epochs": 20, "warmup_epochs": 1, "global_batch_size": 300}) as s:
        s.t.expect("done")
        s.t.send("q")
        assert s.t.wait_end() == 0
        assert s.updates()[-1]["global_batch_size"] == 200
        t = s.attach()
        t.expect("batch 300 = 300 × 1 × 1")
        # What was recorded is shown, and when it ended.
        t.expect("epoch 20.00/20")
        t.wait(lambda: re.search(r"✓ done .* ended at \d\d:\d\d:\d\d", t.text()), "when it ended")
        t.expect("1 × cpu")
        t.send("q")
        t.wait_end()
        t.close()


def an_end_is_no_question():
    """A trainer that has ended its run holds the lock while it frees what it has: here for long, in another's hands."""
    with Session(**{"max_epochs": 24, "warmup_epochs": 1}) as s:
        with open(s.dir + "/lock", "r+b") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)  # once the trainer has let it go
            s.t.expect("ended at")
            seen = len(s.updates())
            s.t.send("+")
            s.t.expect("the run has ended")
            assert b"trainer gone?" not in s.t.raw, s.t.text()
            assert seen == 240 and "✓ done" in s.t.text(), s.t.text()
        s.t.send("q")
        assert s.t.wait_end() == 0


def a_start_that_fails():
    """Its reason is read in the console, and then nothing of it is left."""
    place = tempfile.mkdtemp(prefix="bst-tui-")
    args = [BSTUNE, "run", "quickstart", "--init", "nosuch.safetensors"]
    for k, v in TINY.items():
        args += ["--set", f"{k}={v}"]
    t = Terminal(args, 100, 24, env={"BSTUNE_SOCKET_DIR": place + "/s", "OMP_NUM_THREADS": "1"}, cwd=place)
    t.expect("nosuch.safetensors")
    t.send("q")
    code = t.wait_end()
    said = t.raw[-600:].decode(errors="replace")
    assert code in (1, 2) and "failed: " in said and "nothing is left of it" in said and "/log" not in said, said
    assert "runs" not in os.listdir(place), os.listdir(place)
    t.close()
    shutil.rmtree(place, ignore_errors=True)


def idle_bytes():
    """At most 1 kB/s at 80×24 while a real run is watched for six seconds."""
    with Session(**{"data.train_count": 60000, "model.width": 8}) as s:
        s.t.settle(0.1)
        start, begin = len(s.t.raw), time.monotonic()
        s.t.wait(lambda: time.monotonic() - begin > 6, "six seconds")
        rate = (len(s.t.raw) - start) / (time.monotonic() - begin)
        print(f"      {rate:.0f} bytes/s")
        assert rate <= 1024


LANGUAGE = {
    "model.name": "gpt", "model.width": 16, "model.layers": 1, "model.heads": 2, "data.format": "reverse", "data.length": 24,
    "data.train_count": 640, "optimizer": "adamw", "learning_rate": 0.003, "lr_scheduler": "noam", "warmup_epochs": 20,
    "batch_unit": "tokens", "global_batch_size": 600, "lr_base_batch_size": 600, "grad_norm_band": "[0.2, 3]",
}


def a_language_model():
    """Tokens a second, perplexity, the rate by the update, the preset's band; twenty percent of the tokens; its replay."""
    with Session(width=170, height=45, **LANGUAGE) as s:
        t = s.t
        t.expect("tokens/s")
        t.expect("perplexity")
        t.expect("band 0.20…3.0")
        t.expect("batch 600 tokens, ")
        schedule = next(line for line in t.text().split("\n") if "5 schedule" in line)
        assert "noam" in schedule and re.search(r"(warming up|warm-up) \S+ st", schedule), schedule
        press(t, "+", "batch 600 tokens → 720 tokens (+20 %)")
        t.send("y")
        t.expect("batch 720 tokens, ")
        sizes = [m["global_batch_size"] for m in s.updates()]
        assert sizes[-1] > sizes[0], sizes
        assert s.ctl("stop", "quickstart-1").returncode == 0
        t.expect("ended")
        r = s.terminal([BSTUNE, "replay", "quickstart-1", "--from", "100%"], 170, 45)
        r.expect("perplexity")
        r.expect("batch 720 tokens, ")
        r.close()


def an_old_notice_is_no_news():
    """What was said before a console came stands in its events, not in its footer."""
    with Session(max_epochs=1000, warmup_epochs=1, devices__capture="true") as s:
        s.t.send("q")
        assert s.t.wait_end() == 0
        assert any(m.get("code") == "BST-715" for m in s.lines("metrics.jsonl"))
        assert s.ctl("stop", "quickstart-1").returncode == 0
        end = time.monotonic() + 60
        while os.path.exists(f"/proc/{s.trainer()}"):
            assert time.monotonic() < end, "the run does not end"
            time.sleep(0.05)
        t = s.attach()
        t.expect("ended at")
        t.send("0")
        last = t.text().rstrip("\n").splitlines()[-1]
        assert "? help" in last and "advice" not in last and "BST-" not in last, t.text()
        t.close()


if __name__ == "__main__":
    run([twenty_percent, several_presses_and_none, warned_before_it_is_done, preset_as_one_change, refused_with_the_sizes, checkpoint_and_eval,
         search_is_cancelled, rate_by_a_key, keys_of_ones_own,
         outlives_its_console, two_consoles_one_driver, trainer_dies, stops_after_asking, a_finished_run,
         an_end_is_no_question, a_start_that_fails, idle_bytes, a_language_model, an_old_notice_is_no_news])
