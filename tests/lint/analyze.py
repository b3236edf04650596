#!/usr/bin/env python3
"""The target `analyze`: clang-tidy, cppcheck and gcc -fanalyzer over the sources (not the tests), each
of which finds what the others miss. A tool that is not installed is named and left out.

    analyze.py [--only TOOL] ROOT BUILD [PATH-PREFIX]…
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

FOLDERS = ("core/", "nets/", "tui/")


def sources(root, build, prefixes):
    """[(path, compiler's arguments)], each C file once."""
    seen = {}
    for c in json.loads((build / "compile_commands.json").read_text()):
        p = pathlib.Path(c["directory"], c["file"]).resolve()
        try:
            path = p.relative_to(root.resolve()).as_posix()
        except ValueError:
            continue
        if path.startswith(FOLDERS) and path.endswith(".c") and (not prefixes or path.startswith(tuple(prefixes))):
            seen.setdefault(path, (c["directory"], shlex.split(c["command"])))
    return sorted(seen.items())


def run(cmd, cwd):
    r = subprocess.run(cmd, cwd=cwd, capture_output=True, text=True, check=False)
    return r.returncode, r.stdout + r.stderr


def tidy(path, directory, _args, root, build):
    rc, out = run(["clang-tidy", "--quiet", "-p", str(build.resolve()), str((root / path).resolve())], directory)
    return "" if rc == 0 else re.sub(r"^\d+ warnings? (generated|treated as errors?)\.?\n", "", out, flags=re.M)


def gcc(_path, directory, args, _root, _build):
    # clang has no -fanalyzer; the flags are the same but for the compiler's name.
    cmd = ["gcc", *args[1:]]
    cmd[cmd.index("-o") + 1] = "/dev/null"
    cmd = [a for a in cmd if a not in ("-MD",)]
    for flag in ("-MT", "-MF"):
        while flag in cmd:
            i = cmd.index(flag)
            del cmd[i:i + 2]
    _, out = run([*cmd, "-O1", "-fanalyzer", "-Wanalyzer-too-complex", "-Wno-analyzer-too-complex"], directory)
    return out


def cppcheck(files, root):
    defines = ["-D_GNU_SOURCE", "-DBST_VERSION=\"0\"", "-D__x86_64__", "-D__extension__="]
    rc, out = run(["cppcheck", "--quiet", "--std=c11", "--language=c", "--enable=warning,portability,performance",
                   "--inline-suppr", "--error-exitcode=1", "--max-configs=4", "-I", ".",
                   "--suppressions-list=tests/lint/cppcheck.txt", f"-j{os.cpu_count()}", *defines, *files], root)
    return out if rc or out.strip() else ""


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("root", type=pathlib.Path)
    ap.add_argument("build", type=pathlib.Path)
    ap.add_argument("prefixes", nargs="*")
    ap.add_argument("--only")
    a = ap.parse_args()
    files = sources(a.root, a.build, a.prefixes)
    n_bad = 0
    for name, each in (("clang-tidy", tidy), ("gcc", gcc), ("cppcheck", None)):
        if a.only not in (None, name):
            continue
        if not shutil.which(name):
            print(f"{name}: not installed, left out")
            continue
        if each:
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                jobs = [pool.submit(each, path, *how, a.root, a.build) for path, how in files]
                found = [j.result() for j in jobs]
        else:
            found = [cppcheck([path for path, _ in files], a.root)]
        found = [f for f in found if f.strip()]
        n_bad += len(found)
        for f in found:
            print(f.rstrip())
        print(f"{name}: {len(files)} files, {'findings' if found else 'clean'}")
    return 1 if n_bad else 0


sys.exit(main())
