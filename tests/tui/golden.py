#!/usr/bin/env python3
"""Runs a key script over the made-up run and compares what it saves with the kept screens.

golden.py TUI_SCRIPT SCRIPT [--update]: SCRIPT is tests/tui/scripts/NAME.script, its screens are in
tests/tui/golden/NAME.txt. A first line `# args: …` gives options to the program.
"""
import difflib
import os
import subprocess
import sys

program, script = sys.argv[1:3]
name = os.path.splitext(os.path.basename(script))[0]
kept = os.path.join(os.path.dirname(script), "..", "golden", name + ".txt")
with open(script, encoding="utf-8") as f:
    first = f.readline()
options = first[len("# args:"):].split() if first.startswith("# args:") else []
run = subprocess.run([program, script] + options, capture_output=True, timeout=60,
                     env=dict(os.environ, TZ="UTC", LC_ALL="C.UTF-8"))
if run.returncode:
    sys.exit(f"{script}: exit {run.returncode}\n{run.stderr.decode()}\n{run.stdout.decode()}")
screens = run.stdout.decode()
if not screens.strip():
    sys.exit(f"{script}: saves no screen")
if "--update" in sys.argv:
    with open(kept, "w", encoding="utf-8") as f:
        f.write(screens)
    sys.exit(0)
with open(kept, encoding="utf-8") as f:
    expected = f.read()
if screens != expected:
    sys.stdout.writelines(difflib.unified_diff(expected.splitlines(True), screens.splitlines(True),
                                               kept, "now"))
    sys.exit(f"{name}: the screens differ; golden.py … --update keeps the new ones")
