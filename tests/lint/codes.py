#!/usr/bin/env python3
"""lint.codes: every BST-nnn that a source writes is in core/tune/diagnostics.def, and every code of the
table is one that something can say.

    codes.py ROOT
    codes.py --self-test
"""
import pathlib
import re
import sys

TABLE = "core/tune/diagnostics.def"


def check(table, sources):
    """table: text; sources: {path: text}"""
    known = {int(n): name for n, name in re.findall(r"^X\((\d+), (\w+),", table, flags=re.M)}
    rules = set()
    said, bad = set(), []
    for path, text in sources.items():
        for n in map(int, re.findall(r"BST-(\d{3})(?!\d)", text)):
            said.add(n)
            if n not in known:
                bad.append(f"{path}: BST-{n} is not in {TABLE}")
        rules |= set(re.findall(r"BST_DIAG_(\w+)", text))
        rules |= set(re.findall(r"^ +X\((\w+)\) *\\?$", text, flags=re.M))  # a list such as BST_WATCH_RULES
    for n, name in known.items():
        if n not in said and name not in rules:
            bad.append(f"{TABLE}: nothing says BST-{n} ({name})")
    return bad


def self_test():
    table = 'X(101, ONE, WARN, "a")\nX(102, TWO, INFO, "b")\nX(103, THREE, INFO, "c")\n'
    sources = {"a.c": 'f("BST-101: x");\ng(BST_DIAG_TWO);\n', "b.c": 'h("BST-999");\n'}
    want = ["b.c: BST-999 is not in " + TABLE, TABLE + ": nothing says BST-103 (THREE)"]
    got = check(table, sources)
    return [] if got == want else [f"got {got}"]


def main():
    if sys.argv[1] == "--self-test":
        bad = self_test()
    else:
        root = pathlib.Path(sys.argv[1])
        paths = [p for d in ("core", "nets", "tui") for p in (root / d).rglob("*.[ch]")]
        bad = check((root / TABLE).read_text(),
                    {p.relative_to(root).as_posix(): p.read_text() for p in paths
                     if "diagnostics." not in p.name})
    for line in bad:
        print(line)
    print(f"{len(bad)} finding(s)")
    return 1 if bad else 0


sys.exit(main())
