"""What gorun's look at the GPUs costs a start: commands run in turn, medians.

Usage: medians.py ROUNDS GORUN WORKERS

It ends with 1 if pins alone cost more than 15 ms."""

import statistics
import subprocess
import sys
import time

rounds, gorun, workers = int(sys.argv[1]), sys.argv[2], sys.argv[3]
ways = {
    "nothing (--pin=none --preflight=off)": ["--pin=none", "--preflight=off"],
    "GPUs for pinning (--preflight=off)": ["--preflight=off"],
    "GPUs and preflight (default)": [],
    "the count too (--nproc-per-node gpu)": ["--nproc-per-node", "gpu"],
}
pins = list(ways)[1]
if int(workers) > 1:
    each = str(int(workers) // 2)
    for nodes in ("1", "2"):
        ways[f"--local-nodes {nodes}, preflight"] = ["--local-nodes", nodes, "--nproc-per-node", each, "--ignore", "L02"]
took = {way: [] for way in ways}
end = time.monotonic() + 75
for i in range(rounds + 1):
    for way, flags in ways.items():
        begin = time.monotonic()
        command = [gorun, "--nproc-per-node", workers, *flags, "--no-python", "/bin/true"]
        r = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if r.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit code {r.returncode}\n{r.stderr}")
        if i > 0:  # the first is for the caches
            took[way].append(1000 * (time.monotonic() - begin))
    if time.monotonic() > end:
        break
base = statistics.median(next(iter(took.values())))
for way, ms in took.items():
    print(f"  {way:40} median {statistics.median(ms):7.1f} ms  (+{statistics.median(ms) - base:.1f})  min {min(ms):.1f}  max {max(ms):.1f}  n {len(ms)}")
cost = statistics.median(took[pins]) - base
print(f"  pins cost {cost:.1f} ms; 15 are meant to be enough")
sys.exit(cost > 15)
