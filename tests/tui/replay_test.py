"""The recording of a run, played in a terminal: replay_test.py BSTUNE [TEST…]"""
import json
import os
import re
import time

from live_test import BSTUNE, Session
from terminal import PATIENCE, run

# What the clock or the viewer makes different between a run and its replay.
PASSING = [r"run for \S+", r"busy +\S+( %)?", r"left \S+", r"samples/s \S+", r"replay x\S+", r"read-only", r"ended", r"you drive"]


def still(text):
    for p in PASSING:
        text = re.sub(p, "…", text)
    lines = [re.sub(r"[ ─]+", " ", line).strip() for line in text.splitlines()]
    return lines[:29]  # less the footer, which is the viewer's


def metrics(s):
    with open(os.path.join(s.dir, "metrics.jsonl"), encoding="utf-8") as f:
        return [m for m in map(json.loads, f) if m["type"] == "update"]


def recording(s):
    with open(os.path.join(s.dir, "recording.jsonl"), encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def change(s, *command):
    done = s.ctl("ctl", "quickstart-1", *command)
    assert done.returncode == 0, done.stderr + done.stdout


def quiet_screen(t):
    t.settle(0.6)
    return still(t.text())


def same(live, played, when, s):
    differ = [(a, b) for a, b in zip(live, played) if a != b]
    if differ or len(live) != len(played):
        lines = "\n".join(f"live   {a}\nreplay {b}" for a, b in differ)
        raise AssertionError(f"{when}: {lines}\n{recording(s)[-4:]}")


def same_screens():
    """A run is changed three times and held: its console then, and its replay at that time, look the same."""
    with Session(width=100, height=30) as s:
        s.t.close()
        for command in (["batch", "+20%"], ["lr", "*0.5"], ["warmup", "+1ep"]):
            change(s, *command)
        change(s, "pause")
        t = s.terminal([BSTUNE, "attach", "quickstart-1", "--readonly"], 100, 30)
        t.expect("‖ paused")
        live = quiet_screen(t)
        end = time.monotonic() + PATIENCE
        while not any(r["set"].get("phase") == "paused" for r in recording(s)):
            assert time.monotonic() < end, "the pause is not in the recording"
            time.sleep(0.05)
        held = recording(s)[-1]["t"] + 0.3
        time.sleep(1.5)  # the pause itself has to last for the replay to fall into it
        change(s, "resume")
        s.ctl("stop", "quickstart-1")
        t.expect("ended")
        over = quiet_screen(t)
        t.close()
        last = recording(s)[-1]["t"]
        percent = f"{100 * held / last:.4f}%"
        r = s.terminal([BSTUNE, "replay", "quickstart-1", "--from", percent, "--speed", "0.01"], 100, 30)
        r.expect("‖ paused")
        r.expect("replay x0.01")
        played = quiet_screen(r)
        r.close()
        same(live, played, "paused", s)
        r = s.terminal([BSTUNE, "replay", "quickstart-1", "--from", "100%"], 100, 30)
        r.expect("stopped")
        ended = quiet_screen(r)
        r.close()
        same(over, ended, "at the end", s)


def plays_to_the_end():
    with Session() as s:
        s.t.close()
        change(s, "batch", "+20%")
        s.ctl("stop", "quickstart-1")
        last = metrics(s)[-1]
        r = s.terminal([BSTUNE, "replay", "quickstart-1", "--speed", "0.01"])
        r.expect("replay x0.01")
        r.expect("batch 256")
        r.settle()
        first = int(re.search(r"update (\d+)", r.text())[1])
        assert first < last["update"] / 2, f"starts at update {first} of {last['update']}"
        r.send("+")
        r.expect("nothing can be changed")
        r.send("\x1b")
        r.send(":pause\r")
        r.expect("replay, stands")
        r.close()
        r = s.terminal([BSTUNE, "replay", "quickstart-1", "--speed", "100"])
        r.expect("ended")
        r.expect(f"update {last['update']} ")
        r.expect("batch 307")
        r.send("q")
        assert r.wait_end() == 0


def what_is_refused():
    with Session() as s:
        s.t.close()
        s.ctl("stop", "quickstart-1")
        for args, code, word in ((["--speed", "0"], 2, "0.01 to 10000"), (["--from", "110%"], 2, "0% to 100%"),
                                 (["--from", "half"], 2, "half"), (["--speed", "nan"], 2, "nan")):
            done = s.ctl("replay", "quickstart-1", *args)
            assert done.returncode == code and word in done.stderr, f"{args}: {done}"
        for bad in (b"", b"\n\n", bytes(range(256)) * 20, b'{"t":1}\n[]\n{"t":"x","set":{}}\n'):
            with open(os.path.join(s.dir, "recording.jsonl"), "wb") as f:
                f.write(bad)
            done = s.ctl("replay", "quickstart-1")
            assert done.returncode in (1, 4) and "no line that can be read" in done.stderr, f"{bad[:20]}: {done}"
        os.remove(os.path.join(s.dir, "recording.jsonl"))
        done = s.ctl("replay", "quickstart-1")
        assert done.returncode == 4 and "recording.jsonl" in done.stderr, f"{done}"


if __name__ == "__main__":
    run([same_screens, plays_to_the_end, what_is_refused])
