#!/usr/bin/env python3
"""lint.format: clang-format has nothing to change. Its output differs between versions, so that any
other than the one the tree is formatted with is a skip, not a verdict.

    format.py ROOT [--fix]
"""
import pathlib
import re
import shutil
import subprocess
import sys

VERSION = 14
FOLDERS = ("core", "nets", "tui", "tests")


def main():
    root = pathlib.Path(sys.argv[1])
    tool = shutil.which(f"clang-format-{VERSION}") or shutil.which("clang-format")
    if not tool:
        print("skipped: no clang-format")
        return 77
    version = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout
    if not re.search(rf"version {VERSION}\.", version):
        print(f"skipped: the tree is formatted with clang-format {VERSION}, not with {version.strip()}")
        return 77
    files = sorted(str(p) for d in FOLDERS for p in (root / d).rglob("*.[ch]"))
    if "--fix" in sys.argv:
        subprocess.run([tool, "-i", "--style=file", *files], check=True)
        return 0
    bad = [f for f in files if subprocess.run([tool, "--dry-run", "-Werror", "--style=file", f],
                                              capture_output=True, check=False).returncode]
    for f in bad:
        print(f"{pathlib.Path(f).relative_to(root)}: clang-format would change it")
    print(f"{len(bad)} of {len(files)} files")
    return 1 if bad else 0


sys.exit(main())
