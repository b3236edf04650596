#!/usr/bin/env python3
"""What is on the disk before what: a change's journal entry before its answer, a checkpoint's files before
its manifest before its name. Seen with strace; 77 where there is none or it may not trace."""
import re
import shutil
import subprocess
import sys

from bst import BSTUNE, TINY, Fail, Place, check, main, until


def traced(p, name, *more):
    """A run under strace; gives its log's path and the process."""
    sets = [a for k, v in TINY.items() for a in ("--set", f"{k}={v}")]
    log = p.path / f"{name}.strace"
    args = ["strace", "-f", "-y", "-s", "200", "-o", str(log),
            "-e", "trace=write,pwrite64,fsync,fdatasync,sendto,rename,renameat,renameat2,unlink,unlinkat",
            BSTUNE, "run", "quickstart", "--headless", "--run-dir", name, *sets, *more]
    env = dict(p.env, ASAN_OPTIONS="detect_leaks=0")  # which would need to trace the run itself
    process = subprocess.Popen(args, env=env, cwd=p.path, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)

    class Held:
        pass
    held = Held()
    held.process = process
    p.runs.append(held)
    return log, process


def calls(log):
    """[(call, text)] in the order in which they came back; those of strace's cut lines joined."""
    out, begun = [], {}
    for line in log.read_text(errors="replace").splitlines():
        m = re.match(r"(\d+) +(.*)", line)
        if not m:
            continue
        thread, text = m.groups()
        if "<unfinished ...>" in text:
            begun[thread] = text.replace("<unfinished ...>", "")
            continue
        m = re.match(r"<\.\.\. \w+ resumed>(.*)", text)
        if m:
            text = begun.pop(thread, "") + m.group(1)
        m = re.match(r"(\w+)\(", text)
        if m:
            out.append((m.group(1), text))
    return out


def first(seq, start, what, test):
    for i in range(start, len(seq)):
        if test(*seq[i]):
            return i
    raise Fail(f"there is no {what} after call {start}")


def a_change_is_on_the_disk_before_its_answer():
    with Place() as p:
        log, process = traced(p, "a", "--set", "max_epochs=4000", "--set", "eval_interval=never",
                              "--set", "checkpoint_interval=never")
        metrics = p.path / "a" / "metrics.jsonl"
        until(lambda: metrics.exists() and metrics.stat().st_size > 2000 and p.cli("status", "a")[0] == 0, "the run")
        check(p.cli("ctl", "a", "batch", "+20%")[0] == 0, "the change")
        check(p.cli("stop", "a")[0] == 0, "stop")
        process.wait(60)
        seq = calls(log)
        wrote = first(seq, 0, "entry", lambda c, t: c == "write" and "journal.jsonl" in t)
        check("batch +20%" in seq[wrote][1], "another entry came first")
        synced = first(seq, wrote, "fsync of the journal", lambda c, t: c == "fsync" and "journal.jsonl" in t)
        told = first(seq, 0, "answer", lambda c, t: c == "sendto" and "applied" in t)
        check(wrote < synced < told, f"entry {wrote}, fsync {synced}, answer {told}")


def a_checkpoint_gets_its_name_last():
    with Place() as p:
        log, process = traced(p, "c", "--set", "max_epochs=2")
        check(process.wait(120) == 0, "the run")
        seq = calls(log)
        named = [i for i, (c, t) in enumerate(seq) if c.startswith("rename") and ".tmp-" in t and "-update-" in t
                 and "state.json" not in t and "MANIFEST" not in t]
        check(len(named) >= 2, f"{len(named)} checkpoints")
        for at in named:
            tmp = re.search(r'"([^"]*\.tmp-\d+)"', seq[at][1]).group(1).split("/")[-1]
            mine = [(i, c, t) for i, (c, t) in enumerate(seq[:at]) if tmp in t]
            writes = [(i, t) for i, c, t in mine if c in ("write", "pwrite64")]
            check("MANIFEST" in writes[-1][1], f"written last: {writes[-1][1][:120]}")
            for file in ("weights.safetensors", "optimizer.safetensors", "state.json", "MANIFEST"):
                wrote = [i for i, t in writes if f"/{file}>" in t][-1]
                synced = [i for i, c, t in mine if c == "fsync" and f"/{file}>" in t]
                check(synced and synced[-1] > wrote, f"{file} is not synced after it was written")
                check(file == "MANIFEST" or synced[-1] < writes[-1][0], f"{file} is synced after the manifest")
            after = first(seq, at, "fsync of the folder", lambda c, t: c == "fsync" and "/checkpoints>" in t)
            pruned = [i for i, (c, t) in enumerate(seq) if c.startswith("unlink") and "/checkpoints" in t and i > at]
            check(not pruned or after < min(pruned), "an older one was removed before the new one was certain")


if __name__ == "__main__":
    probe = shutil.which("strace") and subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True,
                                                      check=False).returncode == 0
    if not probe:
        print("skipped: strace is missing or may not trace here")
        sys.exit(77)
    main(a_change_is_on_the_disk_before_its_answer, a_checkpoint_gets_its_name_last)
