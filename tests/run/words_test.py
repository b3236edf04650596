#!/usr/bin/env python3
"""Words that are wrong, or that only a newcomer types: what is said, and with which exit code."""
import json
import os
import pty
import shutil
import subprocess

from bst import BSTUNE, TINY, Place, check, main


def help_on_commands():
    with Place() as p:
        rc, every, err = p.cli("ctl", "help")
        check(rc == 0 and not err and "batch +20%|-20%|=N|xK" in every and "Lengths have a unit: ep" in every, every + err)
        check("bstune ctl batch +20%" in every, every)
        # Whether or not there is such a run.
        check(p.cli("ctl", "nothing", "help") == (0, every, ""), "with a run's name")
        rc, one, err = p.cli("ctl", "help", "warmup")
        check(rc == 0 and one.startswith("usage: bstune ctl [RUN] warmup ") and "bstune ctl warmup +1ep" in one, one + err)
        check(p.cli("ctl", "nothing", "help", "warmup") == (0, one, ""), "on one command")
        rc, out, err = p.cli("ctl", "help", "wramup")
        check(rc == 2 and "did you mean 'warmup'?" in err, f"{rc} {err}")


def bare_words():
    with Place() as p:
        r = p.start("r", max_epochs=1, warmup_epochs=0)
        r.wait_update(1)
        r.end()
        for words, said in (
                (("batch",), ("batch: needs +20%|-20%|=N|xK, as in `batch +20%`", "Try 'bstune ctl help batch'.")),
                (("foo",), ("no command 'foo'", "Try 'bstune ctl help'")),
                (("learning_rate", "0.1"), ("no command 'learning_rate'; did you mean 'lr'?",)),
                (("batch", "+20"), ("did you mean '+20%'?",)), (("epochs",), ("did you mean 'length'?",)),
                (("batch +20",), ("did you mean '+20%'?", "bstune ctl help batch"))):
            rc, out, err = p.cli("ctl", r.dir, *words)
            check(rc == 2 and not out and all(x in err for x in said), f"{words}: {rc} {out}{err}")
        for args, code, said in ((("ctl", "bacth"), 2, "no command 'bacth'; did you mean 'batch'?"),
                                 (("ctl", "bacth", "+20%"), 4, "or did you mean the command 'batch'?"),
                                 (("ctl", "zzzzzz"), 2, "'zzzzzz' is neither a run nor a command"),
                                 (("ctl", r.dir), 2, f"as in `bstune ctl {r.dir} batch +20%`"),
                                 (("pause",), 2, "did you mean 'ctl pause'?")):
            rc, out, err = p.cli(*args)
            check(rc == code and not out and said in err, f"{args}: {rc} {out}{err}")


def a_verb_names_itself_once():
    with Place() as p:
        r = p.start("r", max_epochs=1, warmup_epochs=0)
        r.wait_update(1)
        r.end()
        for args in (("undo",), ("trial 200 lr x2",)):
            rc, out, err = p.cli("trial", r.dir, *args)
            check(rc == 2 and err.startswith("bstune trial: ") and "trial: trial:" not in err, f"{args}: {rc} {err}")
        for n in ("47", "100001", "x"):
            rc, out, err = p.cli("trial", "--updates", n, r.dir, "lr", "x2")
            check(rc == 2 and f"--updates is a whole number from 48 to 100000, not {n}" in err, f"{n}: {rc} {err}")


def args_of(settings):
    return [x for k, v in settings.items() for x in ("--set", f"{k}={v}")]


def on_a_terminal(p, *args):
    lead, end = pty.openpty()
    child = subprocess.Popen([BSTUNE, *args], env={**p.env, "TERM": "xterm"}, cwd=p.path, stdin=end, stdout=end, stderr=end,
                             start_new_session=True)
    os.close(end)
    said = b""
    while True:
        try:
            some = os.read(lead, 65536)
        except OSError:  # the last one has closed it
            break
        if not some:
            break
        said += some
    os.close(lead)
    return child.wait(timeout=60), said.decode(errors="replace")


def a_finished_run_is_not_resumed():
    with Place() as p:
        r = p.start("r", max_epochs=1, warmup_epochs=0).end()
        before = {x.name: x.stat().st_mtime_ns for x in r.dir.iterdir()}
        for more in ((), ("--set", "max_epochs=1")):
            rc, out, err = p.cli("run", "--headless", "--resume", "--run-dir", r.dir, *more)
            check(rc == 0 and "r has finished: 1 epochs, 20 updates" in out and not err, f"{more}: {rc} {out}{err}")
            check(f"--resume --run-dir {r.dir} --set max_epochs=2\n" in out, out)
        # On a terminal it is a line, not a console over a run that is over.
        rc, said = on_a_terminal(p, "run", "--resume", "--run-dir", str(r.dir))
        check(rc == 0 and "r has finished: 1 epochs, 20 updates" in said and "\033" not in said, f"{rc} {said!r}")
        check({x.name: x.stat().st_mtime_ns for x in r.dir.iterdir()} == before, "something was written")
        rc, out, err = p.cli("run", "--headless", "--resume", "--run-dir", r.dir, "--set", "max_epochs=2")
        check(rc == 0 and r.metrics()[-1]["update"] == 40, f"{rc} {out}{err}")
        # A run that was stopped has something left to do.
        s = p.start("s")
        s.wait_update(3)
        s.ctl("stop")
        s.end()
        rc, out, err = p.cli("run", "--headless", "--resume", "--run-dir", s.dir)
        check(rc == 0 and "finished" not in out and s.metrics()[-1]["update"] == 80, f"{rc} {out}{err}")


def resume_keeps_to_the_preset_and_the_folder():
    """quickstart-text-1 is no run of quickstart, and neither is one that lives in another folder."""
    with Place() as p:
        far = p.start("quickstart-7", max_epochs=4000)
        far.wait_update(1)
        home, p.path = p.path, p.path / "else"
        other = p.path / "runs" / "quickstart-text-1"
        other.mkdir(parents=True)
        (other / "run.json").write_text(json.dumps({"name": other.name, "dir": str(other), "started": 4e9, "state": "done"}))
        rc, out, err = p.cli("run", "quickstart", "--headless", "--resume")
        check(rc == 4 and "no run of quickstart under runs/ to resume" in err, f"{rc} {out}{err}")
        p.path = home
        far.ctl("stop")
        far.end()


def what_is_missing_is_named():
    with Place() as p:
        r = p.start("r", max_epochs=1, warmup_epochs=0).end()
        alone = p.path / "alone"
        alone.mkdir()
        shutil.copy(r.dir / "journal.jsonl", alone)
        rc, out, err = p.cli("run", alone / "journal.jsonl", "--headless")
        check(rc == 2 and "alone/preset.yaml: is not there; a journal is repeated with the preset.yaml of its run" in err, f"{rc} {err}")
        rc, out, err = p.cli("run", "--headless", "--resume", "--run-dir", alone)
        check(rc == 2 and "preset.yaml: is not there, so nobody knows what to resume" in err, f"{rc} {err}")
        (r.dir / "preset.yaml").unlink()
        rc, out, err = p.cli("journal", r.dir, "--export-preset", "mine.yaml")
        check(rc == 1 and "preset.yaml: is not there" in err and not (p.path / "mine.yaml").exists(), f"{rc} {err}")
        # A file that cannot be made is called what it was asked for as.
        r = p.start("s", max_epochs=1, warmup_epochs=0).end()
        for args in (("journal", r.dir, "--export-preset", "no/such.yaml"),
                     ("lrfind", "quickstart", *args_of(TINY), "--jsonl", "no/such.yaml")):
            rc, out, err = p.cli(*args)
            check(rc == 1 and err == f"bstune {args[0]}: no/such.yaml: No such file or directory\n", f"{args}: {rc} {err!r}")
        # A key that nobody set is called what did.
        slow = p.cli("preset", "show", "quickstart")[1].replace("warmup_epochs: 1\n", "warmup_epochs: 5\n")
        (p.path / "slow.yaml").write_text(slow)
        for args, said in ((("quickstart", "--epochs", "1"), "--epochs 1"), (("./slow.yaml",), "--epochs 5, as by default")):
            rc, out, err = p.cli("sweep", "--headless", *args)
            check(rc == 2 and "max_epochs" not in err and err.startswith(f"{said}: error: warmup_epochs: "), f"{args}: {rc} {err}")


def what_has_no_room_is_said_at_the_start():
    """A batch that is larger than the run is refused, as it is live; a run that ends within its warm-up is told of."""
    with Place() as p:
        args = ("run", "quickstart", "--headless", "--run-dir", p.path / "n")
        rc, out, err = p.cli(*args, *args_of({**TINY, "global_batch_size": 2561}))
        check(rc == 2 and "BST-203: global_batch_size: a batch of 2561 samples is more than the whole run's 2560" in err, f"{rc} {err}")
        check(not (p.path / "n").exists(), "something is left of it")
        rc, out, err = p.cli(*args, *args_of({**TINY, "devices.memory": "1MiB", "model.width": 64}))
        check(rc == 1 and "BST-201: not even one sample at a time fits (devices.memory): " in err and " needs " in err, f"{rc} {err}")
        p.start("whole", global_batch_size=2560).end()
        for some, said in (({"warmup_steps": 80}, "the run's 2560 samples end within its warm-up of 2560; for all of the schedule "
                                                  "--set warmup_steps=8"),
                           ({"warmup_epochs": 1, "max_steps": 10}, "the run's 320 samples end within its warm-up of 640; for all of "
                                                                   "the schedule --set warmup_epochs=0.05")):
            settings = {k: v for k, v in TINY.items() if k not in ("warmup_epochs", "max_epochs" if "max_steps" in some else "")}
            for more, want in ((some, [said]), ({**some, **dict([said.rsplit("--set ", 1)[1].split("=")])}, [])):
                rc, out, err = p.cli(*args, *args_of({**settings, **more}))
                check(rc == 0, f"{more}: {rc} {err}")
                notes = [json.loads(x) for x in (p.path / "n" / "metrics.jsonl").read_text().splitlines() if "BST-325" in x]
                check([n["text"] for n in notes] == want, f"{more}: {notes}")
                shutil.rmtree(p.path / "n")


def a_preset_taken_up_live_meets_the_rules_of_a_start():
    with Place() as p:
        adam = {"optimizer": "adamw", "learning_rate": 0.002, "lr_scaling": "sqrt", "lr_base_batch_size": 32, "weight_decay": 0.01}
        r = p.start("r", **adam, max_epochs=2000)
        r.wait_update(1)
        rc, reply = r.ctl("-n", "preset", "quickstart")
        kept = {k["key"]: k["why"] for k in reply["kept"]}
        check(rc == 0 and kept["learning_rate"] == "meant for another optimizer" and "weight_decay" in kept, f"{rc} {reply}")
        check("BST-322" in reply["notes"] and "BST-323" not in reply["notes"], f"{reply['notes']}")
        peak = [c for c in reply["changes"] if c["key"] == "learning_rate"]
        check(len(peak) == 1 and abs(float(peak[0]["new"]) / 0.004 - 1) < 1e-3, f"{reply['changes']}")
        rc, reply = r.ctl("-n", "lr", "=0.1")
        check(rc == 0 and "BST-323" in reply["notes"], f"{reply}")
        r.ctl("stop")
        r.end()
        # Ten epochs of warm-up, in a run of four.
        r = p.start("s", data__train_count=64000)
        r.wait_update(1)
        rc, reply = r.ctl("-n", "preset", "a100x4-ddp-2048")
        check(rc == 0 and "BST-324" in reply["notes"], f"{rc} {reply}")
        warmup = [c["new"] for c in reply["changes"] if c["key"] == "warmup"]
        check(warmup and warmup[0].startswith("28444sa"), f"{reply['changes']}")  # 10/90 of 256000 samples
        for text, code in (("warmup =4ep", "BST-304"), ("length =1ep", "BST-304"), ("batch =256001", "BST-203")):
            rc, reply = r.ctl(*text.split())
            check(rc == 1 and reply["code"] == code, f"{text}: {rc} {reply}")
        r.ctl("stop")
        r.end()


def a_rate_for_another_optimizer_is_remarked_on():
    """What a newcomer does first: another optimizer, and the preset's rate with it."""
    with Place() as p:
        for some, codes in (({"optimizer": "adamw", "global_batch_size": 128}, {"BST-323"}),
                            ({"optimizer": "adamw", "learning_rate": 0.002, "lr_scaling": "sqrt"}, set()),
                            ({"devices.capture": "true", "deterministic": "false"}, {"BST-715"})):
            r = p.start("r", **some, max_epochs=1, warmup_epochs=0).end()
            notes = [n for n in r.metrics("note") if n["code"] in ("BST-323", "BST-715")]
            check({n["code"] for n in notes} == codes and len(notes) == len(codes), f"{some}: {notes}")
            if "BST-715" in codes:
                check("devices.capture is for cuda" in notes[0]["text"] and "deterministic is for cuda" in notes[0]["text"], f"{notes}")
            shutil.rmtree(r.dir)


def paths_are_short():
    """A preset found by its name is shown as a person would write it."""
    with Place() as p:
        folder = p.path / "here" / "presets"
        folder.mkdir(parents=True)
        (folder / "bad.yaml").write_text("name: bad\nmomentum: 2\n")
        p.env["BSTUNE_PRESET_DIR"] = str(folder)
        rc, out, err = p.cli("run", "bad", "--headless")
        check(rc == 2 and err.startswith("here/presets/bad.yaml:2:"), err)
        del p.env["BSTUNE_PRESET_DIR"]
        rc, out, err = p.cli("preset", "show", "quickstart", "--set", "warmup_epochs=0", "--set", "lr_scheduler=noam")
        check(rc == 2 and "/../" not in err, f"{rc} {err}")


def data_that_have_to_be_given_say_how():
    with Place() as p:
        for args in (("fit", "gpt2-124m"), ("lrfind", "gpt2-124m"), ("run", "gpt2-124m", "--headless"), ("doctor", "gpt2-124m")):
            rc, out, err = p.cli(*args)
            check(rc == (3 if args[0] == "doctor" else 2) and "--set data.path=" in err + out, f"{args}: {rc} {out}{err}")


def a_warmup_that_is_over_says_what_to_do():
    with Place() as p:
        for warmup, said in ((1, "the warm-up ended at sample 640"), (0, "this run has no warm-up")):
            r = p.start(f"r{warmup}", warmup_epochs=warmup, max_epochs=2000)
            r.wait_update(25)
            rc, reply = r.ctl("warmup", "+10%")
            check(rc == 1 and reply["code"] == "BST-301" and said in reply["text"] and "`lr` changes the rate" in reply["text"], f"{reply}")
            r.ctl("stop")
            r.end()


def refusals_are_json_where_it_was_asked_for():
    with Place() as p:
        r = p.start("r", max_epochs=1, warmup_epochs=0).end()
        for args, code, word in ((("mem", "no-such"), 2, "no preset is called"), (("mem", "quickstart", "--batch", "0"), 2, "--batch"),
                                 (("mem", "quickstart", "--device", "a1000"), 2, "a1000"),
                                 (("mem", "quickstart", "--set", "momentum=2", "--set", "beta1=2"), 2, "beta1"),
                                 (("doctor", "no-such"), 2, "no preset"), (("status", "nothing"), 4, "nothing"),
                                 (("ctl", r.dir, "batch", "+20%"), 4, ""), (("ctl", r.dir, "bacth"), 2, "bacth"),
                                 (("fit", "gpt2-124m"), 2, "data.path"), (("fit", "no-such"), 2, "no preset"),
                                 (("sweep", "quickstart", "--batch", "x"), 2, "--batch")):
            rc, out, err = p.cli(*args, "--json")
            check(rc == code and err, f"{args}: {rc} {out}{err}")
            o = json.loads(out)
            check(o["outcome"] == "refused" and "code" in o and word in o["text"], f"{args}: {o}")
            check(p.cli(*args)[1] == "", f"{args}: said on standard output without --json")


main(help_on_commands, bare_words, a_verb_names_itself_once, a_finished_run_is_not_resumed,
     resume_keeps_to_the_preset_and_the_folder, what_is_missing_is_named, what_has_no_room_is_said_at_the_start, a_preset_taken_up_live_meets_the_rules_of_a_start,
     a_rate_for_another_optimizer_is_remarked_on, paths_are_short, data_that_have_to_be_given_say_how,
     a_warmup_that_is_over_says_what_to_do, refusals_are_json_where_it_was_asked_for)
