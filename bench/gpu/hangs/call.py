"""Measures what recording costs one call: many small all-reduces of one rank by itself."""

import statistics
import time

import torch
import torch.distributed as dist

torch.cuda.set_device(0)
dist.init_process_group("nccl")
x = torch.ones(1, device="cuda")
rounds = []
for _ in range(15):
    began = time.perf_counter()
    for _ in range(1000):
        dist.all_reduce(x)
    rounds.append((time.perf_counter() - began) * 1e3)  # us a call
    torch.cuda.synchronize()
print(f"CALL min {min(rounds):.3f} us median {statistics.median(rounds):.3f} us")
dist.destroy_process_group()
