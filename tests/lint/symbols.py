#!/usr/bin/env python3
"""lint.symbols: every symbol that leaves a file has its layer's prefix and a user in another file, and
most functions are static.

    symbols.py ROOT BUILD   reads BUILD's object files with nm
    symbols.py --self-test
"""
import collections
import pathlib
import re
import subprocess
import sys

PREFIXES = {
    "core/": ("bst_",),
    "nets/": ("net_", "bst_"),
    "tui/": ("tui_", "main"),
}
LOADED = {"bst_module_entry", "bst_mpi_table"}  # what a module gives by name (dlsym)
STATIC_LEAST = 0.50  # of all functions; curl has 63 %, tmux 56 %, darknet 4 %


def read_nm(text):
    """nm -A output → {object: {"defined": {name: kind}, "wanted": {name}}}"""
    objects = collections.defaultdict(lambda: {"defined": {}, "wanted": set()})
    for line in text.splitlines():
        m = re.match(r"(.*\.o):\s*([0-9a-f]*)\s+(\w) (\S+)$", line)
        if not m:
            continue
        obj, _, kind, name = m.groups()
        if kind == "U":
            objects[obj]["wanted"].add(name)
        elif kind in "TDBRVWC":
            objects[obj]["defined"][name] = kind
    return objects


def source_of(obj):
    """…/core/tune/CMakeFiles/bst_tune.dir/schedule.c.o → core/tune/schedule.c"""
    m = re.search(r"(?:^|/)((?:core|nets|tui|tests)(?:/[\w-]+)*)/CMakeFiles/[^/]+\.dir/(.+)\.o$", obj)
    return f"{m.group(1)}/{m.group(2)}" if m else None


def prefixes_of(source):
    if source.endswith(("cuda/absent.c", "cuda/nodriver.c")):  # other libraries' functions by name
        return None
    m = re.match(r"core/backend/(\w+)/", source)
    if m:  # a backend's own folder: its name, as in cpu_op_add; shim_ wraps a vendor's calls, kern_ kernels'
        return ("bst_", "be_", m.group(1), "shim_", "kern_")
    for folder, prefixes in PREFIXES.items():
        if source.startswith(folder):
            return prefixes
    return None


def check(objects):
    bad = []
    users = collections.defaultdict(set)
    for obj, symbols in objects.items():
        for name in symbols["wanted"]:
            users[name].add(obj)
    for obj, symbols in sorted(objects.items()):
        source = source_of(obj)
        prefixes = prefixes_of(source) if source else None
        if not prefixes:
            continue
        for name in sorted(symbols["defined"]):
            if re.match(r"(__asan|__ubsan|__tsan|__odr_asan|__gcov|_ZGV)|.*\.\d+$", name):
                continue
            if source.endswith(".cu") and not name.startswith("kern_"):
                continue  # a kernel or nvcc's stub of it: used by a launch, by address
            if not name.startswith(prefixes):
                bad.append(f"{source}: {name} has none of the prefixes {' '.join(prefixes)}")
            if source != "tui/main.c" and name not in LOADED and not users[name] - {obj}:
                bad.append(f"{source}: {name} is used nowhere else: make it static, or take it out")
    return bad


def functions_of(text):
    """(static, all) functions of a source file, told by the brace in the first column."""
    n_static = n = 0
    lines = text.split("\n")
    for i, line in enumerate(lines):
        if line != "{":
            continue
        k = i - 1
        while k > 0 and lines[k].startswith((" ", "\t")):
            k -= 1
        head = "\n".join(lines[k:i])
        if "(" in head and not head.startswith(("enum", "struct")) or re.match(r"(enum|struct) \w+ \*?\w+\(", head):
            n += 1
            n_static += bool(re.match(r"(__attribute__\(\(.*?\)\)\)? ?|_Thread_local |inline )*static\b", head))
    return n_static, n


def check_static(root):
    total_static = total = 0
    rows = []
    for layer in ("core/base", "core/tune", "core/graph", "core/backend", "core/comm", "core/data", "core/train",
                  "core/run", "nets", "tui"):
        counts = [functions_of(p.read_text()) for p in (root / layer).rglob("*.c")]
        s, n = sum(c[0] for c in counts), sum(c[1] for c in counts)
        total_static, total = total_static + s, total + n
        if n:
            rows.append(f"{layer} {s}/{n} = {s / n:.0%}")
    share = total_static / total if total else 1
    print("static functions: " + ", ".join(rows) + f"; all {total_static}/{total} = {share:.0%}")
    return [] if share >= STATIC_LEAST else [f"{share:.0%} of the functions are static, under {STATIC_LEAST:.0%}"]


def self_test():
    nm = "\n".join([
        "b/core/tune/CMakeFiles/bst_tune.dir/a.c.o:0000000000000000 T bst_a",
        "b/core/tune/CMakeFiles/bst_tune.dir/a.c.o:0000000000000010 T helper",
        "b/core/tune/CMakeFiles/bst_tune.dir/a.c.o:0000000000000020 T bst_lonely",
        "b/core/tune/CMakeFiles/bst_tune.dir/a.c.o:0000000000000030 t inner",
        "b/core/tune/CMakeFiles/bst_tune.dir/a.c.o:                 U bst_lonely",
        "b/core/run/CMakeFiles/bst_run.dir/b.c.o:                 U bst_a",
        "b/core/run/CMakeFiles/bst_run.dir/b.c.o:                 U helper",
    ])
    got = check(read_nm(nm))
    want = ["core/tune/a.c: bst_lonely is used nowhere else: make it static, or take it out",
            "core/tune/a.c: helper has none of the prefixes bst_"]
    bad = [] if sorted(got) == sorted(want) else [f"symbols: {got}"]
    if source_of("core/tune/CMakeFiles/bst_tune.dir/tui/a.c.o") != "core/tune/tui/a.c":
        bad.append("source_of")
    text = ("static int a(void)\n{\n}\n\nenum bst_err b(int x,\n    int y)\n{\n}\n\nstruct c\n{\n};\n"
            "static const int d[] =\n{\n1};\n__attribute__((target(\"avx2\"))) static void e(void)\n{\n}\n")
    if functions_of(text) != (2, 3):
        bad.append(f"functions: {functions_of(text)}")
    return bad


def main():
    if sys.argv[1] == "--self-test":
        bad = self_test()
    else:
        root, build = map(pathlib.Path, sys.argv[1:3])
        # Within the build's folder, whatever the folders above it are called.
        objects = [str(p.relative_to(build)) for p in build.rglob("*.o") if "CMakeFiles" in str(p) and "CompilerIdC" not in str(p)]
        # What a source that is gone left behind is no part of the program.
        objects = [o for o in objects if not source_of(o) or (root / source_of(o)).exists()]
        if not objects:
            print("no object files")
            return 1
        nm = subprocess.run(["nm", "-A", *objects], capture_output=True, text=True, check=True,
                            cwd=build).stdout
        bad = check(read_nm(nm)) + check_static(root)
    for line in bad:
        print(line)
    print(f"{len(bad)} finding(s)")
    return 1 if bad else 0


sys.exit(main())
