#!/usr/bin/env python3
"""lint.layers: the folder is the architecture. Fails on an include or a link against the arrows, on a
vendor's header outside its own folder, and on calls that the house style bans.

    layers.py ROOT          check the tree
    layers.py --self-test   check that each rule can fail
"""
import pathlib
import re
import sys
import tempfile

# Layer → the layers it may see besides itself (transitive; core/base is seen by all).
SEES = {
    "core/base": [],
    "core/tune": [],
    "core/graph": [],
    "core/backend": ["core/graph", "core/tune"],
    "core/comm": ["core/backend", "core/graph", "core/tune"],
    "core/data": ["core/backend", "core/graph", "core/tune"],
    "core/train": ["core/comm", "core/data", "core/backend", "core/graph", "core/tune"],
    "core/run": ["core/train", "core/comm", "core/data", "core/backend", "core/graph", "core/tune"],
    "core/report": ["core/run", "core/tune"],
    "nets": ["core/graph"],
    "tui": ["core/report", "core/run", "core/tune"],
}
# main.c alone hands the table of nets over to the run.
EXTRA = {"tui/main.c": ["nets"]}
# A backend is private: only its own folder and the list of backends see it.
BACKEND_LIST = "core/backend/backends.c"

# Pattern of a system header → folders that may include it.
VENDORS = [
    (r"(oneapi/)?dnnl", ["core/backend/cpu"]),
    (r"omp\.h", ["core/backend", "core/comm", "core/train", "core/run"]),
    (r"(cuda|cudnn|cublas|nvml|nvrtc|curand)", ["core/backend/cuda"]),
    (r"nccl", ["core/comm", "core/backend/cuda"]),  # its functions are found at run time
    (r"mpi\.h", ["core/comm"]),
    (r"(ncurses|curses|panel|term\.h|ncursesw/)", ["tui"]),
    (r"yaml\.h", ["core/run"]),
    (r"jansson\.h", ["core/base", "core/run", "core/train", "tui"]),
    (r"(turbojpeg|jpeglib)", ["core/data"]),
    (r"zlib\.h", ["core/data"]),
    (r"cairo", ["core/report"]),
    (r"cmocka", ["tests"]),
]

# What → (calls, places that may).
BANNED = [
    ("is banned (no bound, or no error)",
     r"strcpy|strcat|sprintf|vsprintf|gets|atoi|atol|atof|strtok|system|popen|tmpnam|mktemp", []),
    ("prints outside tui", r"printf|vprintf|puts|putchar|perror", ["tui/"]),
    ("allocates outside core/base (use bst_x* or bst_alloc)",
     r"malloc|calloc|realloc|strdup|strndup|asprintf|vasprintf|aligned_alloc|posix_memalign",
     ["core/base/alloc.c"]),
    ("exits outside main", r"exit|_exit|quick_exit", ["tui/main.c", "tui/"]),
    ("aborts (use BST_ASSERT)", r"abort|assert", ["core/base/err.c"]),
    ("makes a constructor", r"__attribute__\(\(constructor", []),
]

FUNCTION_STOP = 80


def strip(text):
    """Comments and string contents out, line structure kept."""
    def blank(m):
        s = m.group(0)
        if s[0] == '"':
            return '""'
        if s[0] == "'":
            return "' '"
        return re.sub(r"[^\n]", " ", s)
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)


def layer_of(path):
    for layer in SEES:
        if path == layer or path.startswith(layer + "/"):
            return layer
    return None


def backend_of(path):
    m = re.match(r"core/backend/(\w+)/", path)
    return m.group(1) if m else None


def check_include(path, line, target, bad):
    mine, theirs = layer_of(path), layer_of(target)
    if not theirs:
        return
    allowed = [mine, "core/base", *SEES[mine], *EXTRA.get(path, [])]
    if theirs not in allowed:
        bad.append(f"{path}:{line}: {mine} must not see {theirs} ({target})")
    inner = backend_of(target)
    if inner and backend_of(path) != inner and path != BACKEND_LIST:
        bad.append(f"{path}:{line}: backend '{inner}' is private ({target})")


def check_vendor(path, line, header, bad):
    for pattern, folders in VENDORS:
        if re.match(pattern, header) and not any(path.startswith(f + "/") for f in folders):
            bad.append(f"{path}:{line}: <{header}> belongs in {' or '.join(folders)}")


def check_calls(path, code, bad):
    for why, names, places in BANNED:
        if any(path.startswith(p) for p in places):
            continue
        pattern = names if names.startswith("__") else rf"(?<![\w.>])(?:{names})\s*\("
        for m in re.finditer(pattern, code):
            line = code.count("\n", 0, m.start()) + 1
            bad.append(f"{path}:{line}: {m.group(0).rstrip('( ')} {why}")


def check_lengths(path, code, bad):
    start = None
    for i, line in enumerate(code.split("\n"), 1):
        if line == "{":
            start = i
        elif line.startswith("}") and start:
            if i - start - 1 > FUNCTION_STOP:
                bad.append(f"{path}:{start}: function of {i - start - 1} lines ({FUNCTION_STOP} is the stop)")
            start = None


def check_guard(path, text, bad):
    name = re.sub(r"\W", "_", path.rsplit("/", 1)[-1]).upper()
    if path.endswith(".h") and not re.search(rf"#ifndef \w*{name}\n#define \w*{name}\n", text) \
            and "no guard" not in text[:400]:
        bad.append(f"{path}:1: no include guard that ends in {name}")


def check_source(path, text, bad):
    code = strip(text)
    for i, line in enumerate(text.split("\n"), 1):
        m = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
        if m and m.group(1) == '"':
            check_include(path, i, m.group(2), bad)
        elif m:
            check_vendor(path, i, m.group(2), bad)
        if "\t" in line:
            bad.append(f"{path}:{i}: a tab")
    check_calls(path, code, bad)
    check_lengths(path, code, bad)
    check_guard(path, text, bad)


def check_links(path, text, bad):
    """A layer's library links only what lies under it."""
    mine = layer_of(path)
    if not mine:
        return
    for call in re.findall(r"bst_layer\(([^)]*)\)", text, flags=re.S):
        for lib in re.findall(r"\bbst_(\w+)", call.split("LINKS", 1)[-1]):
            theirs = f"core/{lib}" if f"core/{lib}" in SEES else lib
            if theirs in SEES and theirs not in [mine, "core/base", *SEES[mine]] and theirs != "nets":
                bad.append(f"{path}: {mine} must not link {theirs}")


def check_tree(root):
    bad = []
    for layer in SEES:
        for p in sorted((root / layer).rglob("*")):
            path = p.relative_to(root).as_posix()
            if p.suffix in (".c", ".h", ".def", ".inc", ".cu", ".cuh"):
                check_source(path, p.read_text(), bad)
            elif p.name == "CMakeLists.txt":
                check_links(path, p.read_text(), bad)
    return bad


FAULTS = [
    ("core/tune/a.c", '#include "core/train/x.h"\n', "must not see core/train"),
    ("core/graph/a.c", '#include "core/tune/x.h"\n', "must not see core/tune"),
    ("core/comm/a.c", '#include "core/data/x.h"\n', "must not see core/data"),
    ("core/data/a.c", '#include "core/train/x.h"\n', "must not see core/train"),
    ("nets/a.c", '#include "core/backend/x.h"\n', "must not see core/backend"),
    ("tui/a.c", '#include "core/graph/x.h"\n', "must not see core/graph"),
    ("tui/a.c", '#include "nets/nets.h"\n', "must not see nets"),
    ("core/train/a.c", '#include "core/backend/cpu/x.h"\n', "is private"),
    ("core/train/a.c", "#include <dnnl.h>\n", "<dnnl.h> belongs in"),
    ("core/run/a.c", "#include <ncurses.h>\n", "<ncurses.h> belongs in"),
    ("core/run/a.c", "void f(void)\n{\n    strcpy(a, b);\n}\n", "a.c:3: strcpy is banned"),
    ("core/run/a.c", "int x = atoi (s);\n", "atoi is banned"),
    ("core/run/a.c", 'void f(void)\n{\n    printf("x");\n}\n', "prints outside tui"),
    ("core/run/a.c", "char *p = malloc(3);\n", "allocates outside"),
    ("core/base/a.c", "char *p = strdup(s);\n", "allocates outside"),
    ("core/run/a.c", "void f(void)\n{\n    exit(1);\n}\n", "exits outside main"),
    ("core/run/a.c", "void f(void)\n{\n    assert(x);\n}\n", "aborts"),
    ("core/run/a.c", "void f(void)\n{\n" + "    x++;\n" * 81 + "}\n", "function of 81 lines"),
    ("core/run/a.c", "\tint x;\n", "a tab"),
    ("core/run/a.h", "#ifndef WRONG_H\n#endif\n", "no include guard that ends in A_H"),
    ("core/tune/CMakeLists.txt", "bst_layer(bst_tune a.c LINKS bst_run)\n", "must not link core/run"),
]
FINE = [
    ("tui/main.c", '#include "nets/nets.h"\n'),
    ("core/backend/backends.c", '#include "core/backend/cpu/cpu.h"\n'),
    ("core/run/a.c", '/* strcpy(a, b) */ // printf(\nconst char *s = "exit(1)";\nx->abort(p);\nbst_malloc(1);\n'),
    ("tui/a.c", 'void f(void)\n{\n    printf("x");\n}\n'),
    ("core/base/CMakeLists.txt", "bst_layer(bst_base a.c LINKS m)\n"),
]


def self_test():
    wrong = []
    for path, text, want in [*FAULTS, *((p, t, None) for p, t in FINE)]:
        with tempfile.TemporaryDirectory() as d:
            p = pathlib.Path(d, path)
            p.parent.mkdir(parents=True)
            p.write_text(text)
            got = check_tree(pathlib.Path(d))
        if (want is None) != (not got) or (want and not any(want in g for g in got)):
            wrong.append(f"{path} {text!r}: wanted {want!r}, got {got}")
    return wrong


def main():
    bad = self_test() if sys.argv[1] == "--self-test" else check_tree(pathlib.Path(sys.argv[1]))
    for line in bad:
        print(line)
    print(f"{len(bad)} finding(s)")
    return 1 if bad else 0


sys.exit(main())
