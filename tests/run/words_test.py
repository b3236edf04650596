#!/usr/bin/env python3
"""Words that are wrong, or that only a newcomer types: what is said, and with which exit code."""
from bst import Place, check, main


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


main(help_on_commands, bare_words, a_verb_names_itself_once)
