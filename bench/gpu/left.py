"""What a container that outlives its client is to bench/gpu/run.sh: a process with
the environment of rank 0 that nobody below gorun has started. It takes the file
of worker.py's --leave, computes on that rank's GPU for some seconds and ends."""

import os
import sys
import time

path, seconds = sys.argv[1], float(sys.argv[2])
if len(sys.argv) == 3:
    for _ in range(600):
        if os.path.exists(path):
            break
        time.sleep(0.1)
    with open(path, "rb") as f:
        env = dict(pair.split(b"=", 1) for pair in f.read().split(b"\0"))
    os.execve(sys.executable, [sys.executable, *sys.argv, "now"], env)

import torch  # noqa: E402

x = torch.ones(1 << 28, device="cuda:0")
torch.cuda.synchronize()
open(path + ".up", "w").close()
time.sleep(seconds)
