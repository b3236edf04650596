#!/usr/bin/env python3
"""A run tuned by hand can be done again: from its journal, and from the preset that its journal becomes."""
import json
import shutil

from bst import BSTUNE, Place, Run, check, main, until

SOME = {"max_epochs": 12, "checkpoint_interval": "1ep", "data__threads": 1}


class Started(Run):
    """A trainer on any preset file; the settings are the file's."""

    def __init__(self, place, name, preset, *more):
        import subprocess
        self.place, self.name, self.dir = place, name, place.path / name
        self.out = open(place.path / f"{name}.out", "ab")
        self.process = subprocess.Popen([BSTUNE, "run", str(preset), "--headless", "--run-dir", str(self.dir), *more],
                                        env=place.env, cwd=place.path, stdin=subprocess.DEVNULL,
                                        stdout=self.out, stderr=self.out, start_new_session=True)
        place.runs.append(self)


def changed(run, *commands):
    for n, command in commands:
        run.wait_update(n)
        rc, reply = run.ctl(*command.split())
        check(rc == 0, f"{command}: {reply}")


def same_run(a, b):
    check(a.weights() == b.weights(), "other weights")
    check(a.series() == b.series(), "another series")


def three_changes(p):
    r = p.start("r", **SOME)
    changed(r, (10, "batch +20%"), (30, "lr *0.5"), (50, "decay linear =0.1"))
    return r.end(0)


def a_journal_is_a_run():
    with Place() as p:
        r = three_changes(p)
        again = Started(p, "again", r.dir / "journal.jsonl").end(0)
        same_run(r, again)
        said = again.said()
        check("a run is repeated, with its 3 changes" in said and "starts over" not in said, said)
        check([e["command"] for e in again.journal()] == [e["command"] for e in r.journal()], "another journal")


def a_journal_becomes_a_preset():
    with Place() as p:
        r = three_changes(p)
        rc, out, err = p.cli("journal", r.dir, "--export-preset", p.path / "tuned.yaml")
        check(rc == 0 and not out, err)
        text = (p.path / "tuned.yaml").read_text()
        check(text.count("command:") == 3 and "batch +20%" in text, text)
        again = Started(p, "again", p.path / "tuned.yaml").end(0)
        same_run(r, again)
        check(all(e["source"] == "preset" for e in again.journal()), "who made them is not said")


def undone_and_rewound_changes_are_repeated():
    with Place() as p:
        r = p.start("r", **SOME)
        changed(r, (5, "batch +20%"), (15, "undo"), (25, "lr *0.5"))
        r.wait_update(r.metrics()[-1]["update"] + 5)
        changed(r, (1, "undo --rewind"), (40, "batch =48"))
        r.end(0)
        same_run(r, Started(p, "one", r.dir / "journal.jsonl").end(0))
        rc, out, err = p.cli("journal", r.dir, "--export-preset", "-")
        check(rc == 0 and out.count("command:") == 3 and "lr *0.5" not in out, out + err)
        (p.path / "t.yaml").write_text(out)
        same_run(r, Started(p, "two", p.path / "t.yaml").end(0))


def a_redo_is_rewound_as_well():
    """What is held is the state from before the `redo`, whether or not its settings were undone first."""
    for undone in (False, True):
        with Place() as p:
            r = p.start("r", **{**SOME, "max_epochs": 16})
            changed(r, (5, "lr *0.5"), (15, "undo"), (20, "redo"))
            rewound = r.journal()[-1]
            r.wait_update(r.metrics()[-1]["update"] + 5)
            if undone:
                changed(r, (1, "undo"))
                r.wait_update(r.metrics()[-1]["update"] + 5)
            rc, reply = r.ctl("undo", "--rewind")
            check(rc == 0 and reply["effective_update"] == rewound["update"], f"{reply}")
            # And it can be applied again, once.
            changed(r, (rewound["update"] + 5, "redo"), (rewound["update"] + 10, "undo --rewind"))
            rc, reply = r.ctl("redo")
            check(rc == 0 and reply["outcome"] == "applied", f"{reply}")
            check(r.ctl("redo")[1]["code"] == "BST-310", "applied twice")
            r.end(0)
            check([e["command"] for e in r.journal()].count("redo") == 4, f"{r.journal()}")
            # Bit for bit as if the updates under what was rewound had never been.
            same_run(r, Started(p, "again", r.dir / "journal.jsonl").end(0))


def a_killed_run_makes_its_changes_once():
    with Place() as p:
        r = three_changes(p)
        p.cli("journal", r.dir, "--export-preset", p.path / "t.yaml")
        k = Started(p, "k", p.path / "t.yaml")
        k.wait_update(60)
        k.send(9)
        k.process.wait()
        while True:
            again = Started(p, "k", p.path / "t.yaml", "--resume")
            if again.process.wait() == 0:
                break
            check(False, again.said())
        same_run(r, again)
        check(len(again.journal()) == 3, f"{again.journal()}")


def a_change_that_was_asked_for_stays_taken_back():
    with Place() as p:
        r = three_changes(p)
        p.cli("journal", r.dir, "--export-preset", p.path / "t.yaml")
        k = Started(p, "k", p.path / "t.yaml", "--set", "changes=[{at: 320sa, command: batch +20%}]",
                    "--set", "max_epochs=20")
        until(lambda: k.journal(), "the change")
        k.wait_update(k.journal()[0]["update"] + 3)
        changed(k, (1, "undo --rewind"))
        k.wait_update(k.metrics()[-1]["update"] + 10)
        check([m["global_batch_size"] for m in k.metrics()][-1] == 32, "made again after the rewind")
        k.send(15)
        k.end(75)


def changes_past_the_end():
    """32 does not divide 1250: the last update is cut, and what is planned behind its start has none to be used by."""
    with Place() as p:
        for n, at in enumerate(("100%", "2497sa", "2501sa", "99ep", "1ep")):
            r = p.start(f"r{n}", "--set", f"changes=[{{at: {at}, command: batch =16}}]", max_epochs=2, data__train_count=1250)
            r.end(0)
            made = [e for e in r.journal() if e["outcome"] == "applied"]
            said = [m for m in r.metrics("note") if m["code"] == "BST-320"]
            check((len(made), len(said)) == ((1, 0) if at == "1ep" else (0, 1)), f"{at}: {made} {said}")
            check(r.metrics()[-1]["samples"] == 2500, f"{at}: {r.metrics()[-1]}")


def longer(r, n):
    """The run in r's folder, resumed with n epochs, to its end."""
    again = Run(r.place, r.name, ["--set", f"max_epochs={n}"], True, {})
    return again.end(0)


def a_run_made_longer_is_one_run():
    """By preset.yaml, by the journal, and by the preset that this becomes; resumed after its end and before it."""
    with Place() as p:
        # 32 does not divide 1250: the last update of the shorter run is cut, and so stays in the longer one.
        some = {**SOME, "max_epochs": 2, "data__train_count": 1250, "model__width": 8}
        for name, stop in (("ended", False), ("cut", True)):
            # One change in the updates, one behind the last, which a longer run does not come back to.
            r = p.start(name, "--set", "changes=[{at: 320sa, command: lr *0.5}, {at: 100%, command: batch =16}]", **some)
            if stop:
                r.wait_update(12)
                r.send(15)
            r.end(75 if stop else 0)
            first = r.metrics()[-1]["samples"]
            longer(r, 3)
            r = longer(r, 4)
            check(r.metrics()[-1]["samples"] == 5000, f"{r.metrics()[-1]}")
            made = [(e["samples"], e["command"]) for e in r.journal()]
            lengths = [(first, "length =3ep"), (3750, "length =4ep")]
            check([m for m in made if "length" in m[1]] == lengths, f"{made}")
            text = (r.dir / "preset.yaml").read_text()
            check("max_epochs: 2" in text and text.count('command: "length') == 2, text)
            one = Started(p, f"{name}-preset", r.dir / "preset.yaml").end(0)
            same_run(r, one)
            check([(e["samples"], e["command"]) for e in one.journal()] == made, f"{made} {one.journal()}")
            same_run(r, Started(p, f"{name}-journal", r.dir / "journal.jsonl").end(0))
            rc, out, err = p.cli("journal", r.dir, "--export-preset", p.path / f"{name}.yaml")
            check(rc == 0, err)
            same_run(r, Started(p, f"{name}-export", p.path / f"{name}.yaml").end(0))
            # It says the length it has, not the one it began with, and nothing is made twice.
            before = r.series(), r.journal()
            r = longer(r, 4)
            check((r.series(), r.journal()) == before and "has finished" in r.said(), r.said())


def a_record_without_the_length_gets_it():
    """The process ended between the journal and preset.yaml."""
    with Place() as p:
        r = p.start("r", **{**SOME, "max_epochs": 2, "checkpoint_interval": "never"}).end(0)
        old = (r.dir / "preset.yaml").read_text()
        k = Run(p, "r", ["--set", "max_epochs=40"], True, {})
        k.wait_update(45)
        k.send(9)
        k.process.wait()
        whole = (r.dir / "preset.yaml").read_text()
        (r.dir / "preset.yaml").write_text(old)
        k = Run(p, "r", (), True, {})
        k.wait_update(60)
        check((r.dir / "preset.yaml").read_text() == whole, "not in preset.yaml")
        # And back: the length it was started with is one like any other.
        k.send(15)
        k.end(75)
        longer(k, 2)
        check([e["outcome"] for e in k.journal() if e["command"] == "length =2ep"] == ["refused"], f"{k.journal()}")


def what_is_refused():
    with Place() as p:
        r = three_changes(p)
        bad = p.path / "bad"
        shutil.copytree(r.dir, bad)
        lines = (bad / "journal.jsonl").read_text().splitlines(True)
        (bad / "journal.jsonl").write_text(lines[0].replace("batch", "botch") + lines[1])
        for args, rc, word in (((bad / "journal.jsonl",), 2, "BST-606"),
                               ((p.path / "none.jsonl",), 2, "none.jsonl"),
                               ((r.dir / "journal.jsonl", "--resume"), 2, "repeats")):
            got, out, err = p.cli("run", *args, "--headless", "--run-dir", p.path / "x")
            check(got == rc and word in err, f"{args}: {got} {err}")
            check(not (p.path / "x").exists(), "left a folder behind")
        got, out, err = p.cli("journal", r.dir)
        check(got == 0 and len(out.splitlines()) == 3 and "batch 32 → 38" in out, out + err)
        got, out, err = p.cli("journal", r.dir, "--json")
        check([json.loads(x) for x in out.splitlines()] == r.journal(), "not the journal")


if __name__ == "__main__":
    main(a_journal_is_a_run, a_journal_becomes_a_preset, undone_and_rewound_changes_are_repeated, a_redo_is_rewound_as_well,
         a_killed_run_makes_its_changes_once, changes_past_the_end, a_run_made_longer_is_one_run,
         a_record_without_the_length_gets_it, a_change_that_was_asked_for_stays_taken_back, what_is_refused)
