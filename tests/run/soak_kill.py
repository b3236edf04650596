#!/usr/bin/env python3
"""kill -9 at 200 moments: 100 anywhere, 50 inside a save, 50 inside a change (see kill_test.py)."""
import kill_test
from bst import main


def two_hundred_kills():
    kill_test.run(kill_test.ARGS.parse_args(["--any", "100", "--save", "50", "--change", "50"]))


if __name__ == "__main__":
    main(two_hundred_kills)
