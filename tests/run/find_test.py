"""run.find: fit and lrfind on a live run. Done, cancelled, killed: the run is as if nothing had been."""
import json
import random
import signal

from bst import Client, Place, check, main, until

SEED = 20261130
# 240 updates: what is asked for one after the other comes before the end.
SOME = {"max_epochs": 12}


plain = []


def same(run, what):
    """As a run without a search, which is made once."""
    if not plain:
        with Place() as place:
            other = place.start("plain", **SOME).end()
            plain.extend((other.series(), other.weights()))
    check(run.series() == plain[0], f"{what}: the updates differ from those of a run without a search")
    check(run.weights() == plain[1], f"{what}: the weights differ")


def answered(client):
    o = client.wait("command")
    return o["outcome"], o.get("code"), o["text"]


def ask(run, text):
    c = Client(run, "ctl")
    c.send({"op": "command", "id": 1, "text": text, "dry": False})
    return c


def searching(run):
    check(run.process.poll() is None, f"ended early: {run.said()}")
    s = run.status()
    return s.get("phase") == "searching" and s["search"]


def done():
    with Place() as place:
        run = place.start("done", **SOME)
        run.wait_update(3)
        rc, o = run.ctl("fit", "40")
        check(rc == 0 and o["outcome"] == "done" and o["code"] == "BST-209", f"fit: {o}")
        check("largest micro-batch 40 (no larger one was tried)" in o["text"] and "batch 32 = 32 × 1 × 1" in o["text"], f"fit: {o}")
        check(run.status()["found_micro"] == 40, "fit: the status has not what was found")
        rc, o = run.ctl("lrfind", "30", "2")
        check(o["outcome"] == "done" and o["code"] in ("BST-315", "BST-316"), f"lrfind: {o}")
        status = run.status()
        check(status["search"] == o["text"], f"lrfind: the status says {status['search']!r}")
        check((status["found_rate"] is None) == (o["code"] == "BST-316"), f"lrfind: {status['found_rate']}")
        run.end()
        points = [json.loads(x) for f in run.dir.glob("lrfind-*.jsonl") for x in f.read_text().splitlines()]
        check(points and points[-1]["type"] == "lrfind-result" and points[-1]["repeats"] == 2, f"points: {points[-1:]}")
        rates = [p["learning_rate"] for p in points if p.get("repeat") == 1]
        check(20 <= len(rates) <= 30 and abs(rates[15] / 1e-3 - 1) < 1e-9, f"rates: {rates}")
        entries = [e for e in run.journal() if e["command"].split()[0] in ("fit", "lrfind")]
        check([e["outcome"] for e in entries] == ["done", "done"], f"journal: {entries}")
        check([e["code"] for e in entries][:1] == ["BST-209"], f"no event says what fit found: {entries}")
        # The journal's entry is the event: the metrics do not bring it a second time.
        check(not [n for n in run.metrics("note") if "largest micro-batch" in n["text"]], "an event comes twice")
        same(run, "done")


def cancelled():
    rng = random.Random(SEED)
    with Place() as place:
        run = place.start("cancelled", **SOME)
        for i, (words, by) in enumerate([("lrfind 1000 5", "cancel"), ("fit 8192", "cancel"), ("lrfind 1000", "pause")]):
            run.wait_update(2 + 3 * i)
            c = ask(run, words)
            until(lambda: searching(run), f"{words} of {run.name}")
            wait = until_random(rng)
            until(wait, "a random moment")
            rc, o = run.ctl(by)
            check(rc == 0, f"{by}: {o}")
            outcome, code, text = answered(c)
            check((outcome, code) == ("dropped", "BST-317") and "as it was" in text, f"{words}: {outcome} {code} {text}")
            if by == "pause":
                check(run.ctl("resume")[0] == 0, "resume")
            c.close()
        rc, o = run.ctl("cancel")
        check(rc == 0 and "no search" in o["text"], f"cancel: {o}")
        run.end()
        same(run, "cancelled")


def until_random(rng):
    """True after so many polls of 5 ms."""
    left = [rng.randrange(60)]

    def there():
        left[0] -= 1
        return left[0] < 0
    return there


def paused():
    """On a paused run; other commands wait until it is over."""
    with Place() as place:
        run = place.start("paused", **SOME)
        run.wait_update(4)
        check(run.ctl("pause")[0] == 0, "pause")
        rc, o = run.ctl("lrfind", "20")
        check(o["outcome"] == "done", f"lrfind while paused: {o}")
        run.wait_phase("paused")
        check(run.ctl("resume")[0] == 0, "resume")
        run.end()
        same(run, "paused")


def stopped():
    """stop and SIGTERM end the search first; what is saved is the last update's state."""
    with Place() as place:
        run = place.start("stopped", **SOME, checkpoint_interval="5st")
        run.wait_update(6)
        c = ask(run, "lrfind 1000 5")
        until(lambda: searching(run), "lrfind before a stop")
        rc, o = run.ctl("stop")
        check(rc == 0, f"stop: {o}")
        check(answered(c)[0] == "dropped", "the search was not answered")
        run.end()
        same(place.start("stopped", resume=True).end(), "stopped and resumed")
        run = place.start("term", **SOME, checkpoint_interval="5st")
        run.wait_update(6)
        c = ask(run, "fit 8192")
        until(lambda: searching(run), "fit before SIGTERM")
        run.send(signal.SIGTERM)
        run.end(75)
        same(place.start("term", resume=True).end(), "SIGTERM and resumed")


def killed():
    rng = random.Random(SEED)
    with Place() as place:
        for i in range(4):
            name = f"killed{i}"
            run = place.start(name, **SOME, checkpoint_interval="4st")
            run.wait_update(5 + rng.randrange(8))
            before = sorted(p.name for p in (run.dir / "checkpoints").iterdir())
            c = ask(run, "lrfind 1000 5" if i % 2 else "fit 8192")
            until(lambda: searching(run), f"a search of {name}")
            saved = sorted(p.name for p in (run.dir / "checkpoints").iterdir())
            until(until_random(rng), "a random moment")
            run.send(signal.SIGKILL)
            run.process.wait()
            after = sorted(p.name for p in (run.dir / "checkpoints").iterdir())
            check(before and after == saved, f"{name}: checkpoints {saved} became {after}")
            c.close()
            same(place.start(name, resume=True).end(), f"{name}, killed and resumed")


def rewound():
    """A search leaves what undo --rewind goes back to."""
    with Place() as place:
        run = place.start("rewound", max_epochs=40)
        run.wait_update(4)
        rc, o = run.ctl("lr", "*0.5")
        check(rc == 0, f"lr: {o}")
        at = o["effective_update"]
        rc, o = run.ctl("fit", "8")
        check(rc == 0, f"fit: {o}")
        rc, o = run.ctl("undo", "--rewind")
        check(rc == 0 and o["effective_update"] == at, f"undo --rewind after a search: {at} {o}")
        run.ctl("stop")
        run.end()


def refused():
    with Place() as place:
        run = place.start("refused", max_epochs=40)
        run.wait_update(2)
        for words, why in [("fit 0", "out of range"), ("fit x", "not a whole number"), ("lrfind 5", "out of range"),
                           ("lrfind 50 9", "out of range"), ("lrfind 50 2 2", "too much")]:
            rc, out, err = place.cli("ctl", run.dir, *words.split())
            check(rc == 2 and why in err, f"{words}: {rc} {out}{err}")
        c = ask(run, "lrfind 1000 5")
        until(lambda: searching(run), "a first search")
        d = ask(run, "fit")
        rc, o = run.ctl("cancel")
        check(rc == 0 and answered(c)[0] == "dropped", "the first one was not dropped")
        # The second began, or was still waiting when `cancel` came; both end it or let it be ended.
        run.ctl("cancel")
        check(answered(d)[0] in ("dropped", "done"), "the second one was not answered")
        run.ctl("stop")
        run.end()


main(done, cancelled, paused, stopped, killed, rewound, refused)
