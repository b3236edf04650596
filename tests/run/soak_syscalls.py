#!/usr/bin/env python3
"""SIGKILL at every single call of a kind, one after the other, until the run gets through; every time the
resumed run ends as the unbroken one. Needs strace."""
import shutil
import subprocess
import sys

from bst import BSTUNE, TINY, Place, check, main

KINDS = ("write", "fsync", "rename", "unlink", "mkdir", "ftruncate")
FEW = {**TINY, "max_epochs": 1, "warmup_epochs": 0, "data.train_count": 128, "checkpoint_interval": "1st"}



def every_call():
    with Place() as p:
        sets = [a for k, v in FEW.items() for a in ("--set", f"{k}={v}")]
        rc, _, err = p.cli("run", "quickstart", "--headless", "--run-dir", "whole", *sets)
        check(rc == 0, err)
        want = (p.path / "whole" / "weights.safetensors").read_bytes()
        points = 0
        for kind in KINDS:
            k = 0
            while True:
                k += 1
                name = f"{kind}-{k}"
                rc = subprocess.run(["strace", "-f", "-o", "/dev/null", "-e", f"trace={kind}",
                                     "-e", f"inject={kind}:signal=SIGKILL:when={k}", BSTUNE, "run", "quickstart",
                                     "--headless", "--run-dir", name, *sets], env=p.env, cwd=p.path,
                                    capture_output=True, check=False).returncode
                if rc == 0:
                    break
                points += 1
                if (p.path / name / "preset.yaml").exists():
                    r = p.start(name, resume=True).end()
                    check((r.dir / "weights.safetensors").read_bytes() == want, f"{name}: another end")
                    check([m["update"] for m in r.metrics()] == [1, 2, 3, 4], f"{name}: an update twice or never")
                shutil.rmtree(p.path / name, ignore_errors=True)
            print(f"{kind}: {k - 1} points", flush=True)
        check(points > 50, "hardly any call was met")


if __name__ == "__main__":
    if not shutil.which("strace"):
        print("skipped: no strace")
        sys.exit(77)
    main(every_call)
