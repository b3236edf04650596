"""PyTorch's side of a bench: updates on demand, as bench.py asks for them on standard input."""
import os
import resource
import sys
import time


def serve(update):
    """One update, then "ready"; to "rss" the peak of memory in bytes, to "full N" the seconds that N updates took."""
    clock = time.process_time if os.environ.get("BENCH_CLOCK") == "processor" else time.perf_counter
    update()
    print("ready", flush=True)
    for line in sys.stdin:
        if line.startswith("rss"):
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, flush=True)
            continue
        n = int(line.split()[1])
        start = clock()
        for _ in range(n):
            update()
        print(f"{clock() - start:.9f}", flush=True)
