#!/usr/bin/env python3
"""man.py MANDIR: the made pages pass mandoc's lint and say everything that the tables hold."""
import pathlib
import re
import shutil
import subprocess
import sys


def main():
    folder = pathlib.Path(sys.argv[1])
    root = pathlib.Path(__file__).resolve().parents[2]
    if not shutil.which("mandoc"):
        print("no mandoc")
        return 77
    bad = []
    text = {}
    for name in ("bstune.1", "bstune-preset.5", "bstune-diagnostics.7"):
        page = folder / name
        lint = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page], capture_output=True, text=True)
        if lint.returncode or lint.stdout:
            bad.append(lint.stdout + lint.stderr)
        plain = subprocess.run(["mandoc", "-T", "utf8", "-O", "width=300", page], capture_output=True, text=True)
        text[name] = re.sub(".\b", "", plain.stdout)
        if "@" in text[name]:
            bad.append(f"{name}: an @ is left: a table was not filled in")

    def must(page, words, what):
        for word in words:
            if word not in text[page]:
                bad.append(f"{page}: {what} {word} is missing")

    def rows(path, pattern):
        found = re.findall(pattern, (root / path).read_text(), re.M)
        if len(found) < 5:
            bad.append(f"{path}: only {len(found)} rows found by {pattern}")
        return found

    must("bstune.1", rows("tui/cli.def", r'^TUI_OPTION\(\w+, "([a-z-]+)"'), "option")
    must("bstune.1", rows("tui/cli.def", r'^TUI_VERB\(\w+, "([a-z-]+)"'), "verb")
    # Those of a sweep's view are there as that view explains them.
    must("bstune.1", rows("tui/keys.def", r'^X\(\w+, "[^"]+", (?!SWEEP)\w+, [^"]+"[^"]*",\s*"([^"]+)"'), "key")
    must("bstune.1", rows("tui/study_keys.def", r'^X\(\w+, "[^"]*", "([^"`]+)'), "key of a sweep")
    must("bstune.1", rows("tui/commands.def", r'^X\(\w+, "([a-z-]+)"'), "word")
    must("bstune.1", rows("core/tune/command.h", r'^ +X\(\w+, "([a-z-]+)"'), "command")
    must("bstune-preset.5", rows("core/run/params.def", r"^BST_PARAM\((\w+)"), "key")
    must("bstune-preset.5", rows("core/run/params.def", r"^BST_PARAM_IN\(\w+, (\w+)"), "key")
    must("bstune-diagnostics.7", ["BST-" + n for n in rows("core/tune/diagnostics.def", r"^X\((\d+)")], "code")
    for line in bad:
        print(line)
    print(f"{len(bad)} finding(s)")
    return 1 if bad else 0


sys.exit(main())
