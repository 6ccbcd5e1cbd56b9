"""One rank fails after a moment while the others would go on for minutes.

Shows what gorun does about it. Needs nothing but Python.
"""

import argparse
import os
import sys
import time


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rank", type=int, default=1, help="the rank that fails (default 1)")
    parser.add_argument("--after", type=float, default=1.0, help="seconds until it fails (default 1)")
    parser.add_argument("--code", type=int, help="exit with this code instead of raising an exception")
    args = parser.parse_args()

    rank = int(os.environ.get("RANK", 0))
    print(f"rank {rank}: training", flush=True)
    if rank != args.rank:
        time.sleep(300)
        return
    time.sleep(args.after)
    if args.code is None:
        raise RuntimeError("loss is NaN at step 42")
    sys.exit(args.code)


if __name__ == "__main__":
    main()
