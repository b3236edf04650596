#!/usr/bin/env python3
"""What `bstune mem` says a run needs, beside the most memory that the run's process ever had (resident, as the kernel counts it),
and beside the textbook's estimate.

usage: memory.py [--updates 3] [--threads 2] [NET:SIDE:BATCH,BATCH...]...      (BSTUNE names the binary)

Of the plan all columns count but `rewind`, which the first change takes and these runs have none of; `process` is what mem measures
of program, libraries and data set, and what it says of a checkpoint is added, since a run saves at its end. The textbook's is parameters x 4 + batch x (inputs + outputs) x 4 x a factor, which mem fits to
two of its own plans. A run: some updates on generated images and one evaluation of a batch."""
import argparse
import json
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BSTUNE = os.environ.get("BSTUNE", str(ROOT / "build/bstune"))
NETS = ["resnet50:224:8,16,32", "resnet18:224:16,32", "resnet8:28:32,128,512"]


def settings(net, side, batch, args):
    images = max(4 * batch, 64)
    sets = {"model.name": net, "data.format": "shapes", "data.image_size": side, "data.train_count": images, "data.eval_count": batch,
            "global_batch_size": batch, "max_steps": args.updates, "warmup_epochs": 0, "devices.backend": "cpu",
            "devices.threads": args.threads, "checkpoint_interval": "never", "advise": "none"}
    return [x for k, v in sets.items() for x in ("--set", f"{k}={v}")]


def planned(net, side, batches, args):
    """By batch: bytes by the plan, and by the textbook."""
    out = subprocess.run([BSTUNE, "mem", "quickstart", "--batch", ",".join(map(str, batches)), "--json",
                          *settings(net, side, batches[0], args)], check=True, capture_output=True, text=True).stdout
    said = json.loads(out)
    once = said["measured"]["process_resident"] + said["saving"]
    return {p["global_batch_size"]: (p["total"] - p["rewind"] + once, p["textbook"]) for p in said["planned"]}


def resident(net, side, batch, args):
    with tempfile.TemporaryDirectory(prefix="bst-memory-") as place:
        with open(f"{place}/said", "wb") as out:
            p = subprocess.Popen([BSTUNE, "run", "quickstart", "--headless", "--run-dir", f"{place}/run",
                                  *settings(net, side, batch, args)], cwd=place, stdout=out, stderr=out)
            _, status, used = os.wait4(p.pid, 0)
        if os.waitstatus_to_exitcode(status):
            raise SystemExit(pathlib.Path(f"{place}/said").read_text())
        return used.ru_maxrss * 1024


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("nets", nargs="*", default=NETS)
    p.add_argument("--updates", type=int, default=3)
    p.add_argument("--threads", type=int, default=2)
    args = p.parse_args()
    print("| net | batch | the run had, MiB | mem says | off by | textbook | off by | times closer |\n|---|---|---|---|---|---|---|---|")
    for text in args.nets:
        net, side, batches = text.split(":")
        batches = [int(b) for b in batches.split(",")]
        plans = planned(net, int(side), batches, args)
        for batch in batches:
            had = resident(net, int(side), batch, args)
            plan, book = plans[batch]
            off = [x / had - 1 for x in (plan, book)]
            print(f"| {net} at {side} | {batch} | {had / 2**20:.1f} | {plan / 2**20:.1f} | {100 * off[0]:+.1f} % | {book / 2**20:.1f} | "
                  f"{100 * off[1]:+.1f} % | {abs(off[1] / off[0]):.1f} |", flush=True)


if __name__ == "__main__":
    main()
