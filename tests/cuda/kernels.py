#!/usr/bin/env python3
"""cuda.kernels: what ptxas says of every kernel, kept as a table. Fails on a stack frame or a spill: an
array whose index is not known at compile time lies in memory, and a memory-bound kernel pays for it.

    kernels.py NVCC ROOT OUT [ARCH…]       ARCH: 80, 90, 100; 90 where none is given
"""
import re
import subprocess
import sys

# One kernel in ptxas's words: its name, then stack and spills, then registers and shared memory.
KERNEL = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, "
                    r"(\d+) bytes spill loads.*?Used (\d+) registers([^\n]*)", re.S)


def report(nvcc, root, arch):
    """[(kernel, arch, registers, shared bytes, stack bytes, spill bytes)]"""
    command = [nvcc, "-std=c++17", f"-I{root}", "-O3", "--fmad=false", f"-gencode=arch=compute_{arch},code=sm_{arch}",
               "-Xptxas", "-v", "-cubin", f"{root}/core/backend/cuda/kern.cu", "-o", "/dev/null"]
    r = subprocess.run(command, capture_output=True, text=True)
    if r.returncode:
        sys.exit(f"{' '.join(command)}\n{r.stdout}{r.stderr}")
    rows = []
    for name, sm, stack, stores, loads, registers, rest in KERNEL.findall(r.stdout + r.stderr):
        shared = re.search(r"(\d+) bytes smem", rest)
        rows.append((name, sm, int(registers), int(shared.group(1)) if shared else 0, int(stack), int(stores) + int(loads)))
    return rows


def main():
    nvcc, root, out, *arches = sys.argv[1:]
    rows = sorted(row for arch in arches or ["90"] for row in report(nvcc, root, arch))
    lines = [f"{'kernel':28}{'arch':>8}{'registers':>11}{'shared':>8}{'stack':>7}{'spills':>8}"]
    lines += [f"{n:28}{a:>8}{r:>11}{m:>8}{s:>7}{p:>8}" for n, a, r, m, s, p in rows]
    with open(out, "w") as f:
        f.write("\n".join(lines) + "\n")
    bad = [f"{n} ({a}): {s} bytes of stack, {p} of spills" for n, a, _, _, s, p in rows if s or p]
    if not rows:
        bad.append("ptxas named no kernel")
    print("\n".join(bad + [f"{len(rows)} kernels, most registers {max((r[2] for r in rows), default=0)}: {out}"]))
    return 1 if bad else 0


sys.exit(main())
