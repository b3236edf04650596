"""What a real terminal gets to see: screen_test.py TUI_FAKE [TEST…]"""
import random
import re
import sys

from terminal import Terminal, run

FAKE = sys.argv[1]
PANES = ["1 devices", "2 throughput", "3 loss", "4 gradient", "5 schedule", "6 events"]


def has_all_panes(t):
    text = t.text()
    return all(p in text for p in PANES)


def keys_change_the_run():
    t = Terminal([FAKE])
    t.wait(lambda: has_all_panes(t), "all panes")
    t.send("+")
    t.expect("batch 256 → 307 (+20 %)")
    t.wait(lambda: t.read(0.4) == b"", "quiet")
    t.send("y")
    t.expect("in force since update 801")
    t.expect("batch 307 ≤ 154 × 1 × 2")
    t.close()


def paste_is_ignored():
    """A pasted text that would stop the run, with and without marks around it."""
    t = Terminal([FAKE])
    t.wait(lambda: has_all_panes(t), "all panes")
    assert b"\x1b[?2004h" in t.raw
    t.send("\x1b[200~+yQy\x1b[201~")
    t.settle()
    assert "apply" not in t.text() and "Stop the run" not in t.text()
    t.send("+y+y")  # typed ahead: what comes with the key that arms is no answer to it
    t.expect("y again applies")
    t.settle()
    assert "in force" not in t.text()
    t.send("\x1b")
    t.gone("y again applies")
    t.send(":\x1b[200~lr\n=1\x1b[201~")
    t.expect(":lr =1")
    t.close()


def resize_storm():
    t = Terminal([FAKE, "--moving"])
    t.wait(lambda: has_all_panes(t), "all panes")
    rnd = random.Random(4)
    t.blind = True
    for i in range(150):
        t.resize(rnd.choice([1, 2, 39, 40, 79, 80, 119, 120, 300, rnd.randint(1, 300)]),
                 rnd.choice([1, 2, 9, 10, 15, 16, 23, 24, 35, 36, 100, rnd.randint(1, 100)]))
        if i % 3 == 0:
            t.send(rnd.choice(["\t", "\r", "?", "\x1b", "p", "+", "1", "0", "}", "g", ":", "l"]))
        t.read(0.02)
        assert not t.ended(), f"ended at step {i}"
    for keys in ("\x1b", "\x1b", "\x1b", "0"):
        t.send(keys)
        t.settle(0.15)
    for width, height in ((1, 1), (300, 100), (80, 24)):
        t.resize(width, height)
        t.settle(0.2)
    t.blind = False
    t.send("\x0c")
    t.wait(lambda: has_all_panes(t), "all panes again")
    assert not t.screen.display[0].strip() == ""
    t.send("q")
    assert t.wait_end() == 0
    t.close()


def every_terminal():
    for term in ("linux", "vt100", "xterm", "screen-256color", "tmux-256color", "xterm-256color"):
        t = Terminal([FAKE], term=term)
        t.wait(lambda: "3 loss" in t.text() and "quickstart-1" in t.text(), term)
        if term == "linux":
            assert not re.search("[\u2801-\u28ff]", t.text()), "the Linux console has no braille"
        t.send("q")
        assert t.wait_end() == 0, term
        t.close()


def unknown_terminal():
    t = Terminal([FAKE], term="no-such-terminal")
    t.expect("terminal type no-such-terminal is not known here")
    t.expect("3 loss")
    t.send("q")
    assert t.wait_end() == 0
    t.close()


def dumb_terminal():
    for term in ("dumb", ""):
        t = Terminal([FAKE, "--frames", "3"], term=term)
        assert t.wait_end() == 0
        assert b"\x1b" not in t.raw, "escapes on a dumb terminal"
        assert b"epoch 3.41/10" in t.raw and b"batch 256" in t.raw
        t.close()


def ascii_locale():
    for env, args in (({"LC_ALL": "C"}, []), ({}, ["--ascii"])):
        t = Terminal([FAKE] + args, env=env)
        t.expect("3 loss")
        assert all(b < 0x80 for b in t.raw), "a byte above 127"
        t.send("q")
        assert t.wait_end() == 0
        t.close()


def colour(raw):
    return re.search(rb"\x1b\[(?:\d+;)*(3[0-7]|38;5;\d+)(;\d+)*m", raw)


def no_color():
    for env, args, expected in (({}, [], True), ({"NO_COLOR": "1"}, [], False), ({}, ["--no-color"], False),
                                ({"NO_COLOR": ""}, [], True)):
        t = Terminal([FAKE] + args, env=env)
        t.expect("3 loss")
        t.settle()
        assert bool(colour(t.raw)) == expected, f"{env} {args}"
        t.close()


def mouse_is_asked_for():
    t = Terminal([FAKE])
    t.expect("3 loss")
    assert not re.search(rb"\x1b\[\?[0-9;]*100[0-6][0-9;]*h", t.raw)
    t.close()
    t = Terminal([FAKE, "--mouse"])
    t.expect("▸3 loss")
    assert re.search(rb"\x1b\[\?[0-9;]*1000[0-9;]*h", t.raw)
    t.send("\x1b[<0;60;3M")
    t.expect("▸1 devices")
    t.close()


def idle_is_cheap():
    """Frames of a run that moves on by a second each: at most 1 kB a frame, so 1 kB/s."""
    for width, height in ((80, 24), (200, 50)):
        t = Terminal([FAKE, "--moving", "--refresh", "0.25"], width, height)
        t.wait(lambda: has_all_panes(t), "all panes")
        t.settle(0.1)
        start, first = len(t.raw), re.search(r"update (\d+)", t.text()).group(1)
        t.wait(lambda: int(re.search(r"update (\d+)", t.text()).group(1)) >= int(first) + 8 * 20,
               "twenty frames")
        last = int(re.search(r"update (\d+)", t.text()).group(1))
        a_frame = (len(t.raw) - start) / ((last - int(first)) / 8)
        print(f"      {width}x{height}: {a_frame:.0f} bytes a frame")
        if width == 80:
            assert a_frame <= 1000, f"{a_frame:.0f} bytes a frame"
        t.close()


run([keys_change_the_run, paste_is_ignored, resize_storm, every_terminal, unknown_terminal, dumb_terminal,
     ascii_locale, no_color, mouse_is_asked_for, idle_is_cheap])
