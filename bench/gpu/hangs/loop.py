"""Measures a training loop: prints the median of the steps, for the recorder's cost."""

import os
import statistics
import sys
import time

RANK = int(os.environ["RANK"])
os.environ.setdefault("NCCL_HOSTID", f"host{RANK}")
os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
os.environ.setdefault("NCCL_IB_DISABLE", "1")

import torch
import torch.distributed as dist

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
dist.init_process_group("nccl")
model = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(8)]).cuda()
model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=8)
rate = torch.optim.SGD(model.parameters(), 1e-4)
x = torch.randn(512, 2048, device="cuda")
times = []
for step in range(int(sys.argv[1])):
    began = time.perf_counter()
    model(x).square().mean().backward()
    rate.step()
    rate.zero_grad()
    torch.cuda.synchronize()
    times.append(time.perf_counter() - began)
if RANK == 0:
    times = sorted(times[10:])
    print(f"STEP min {times[0] * 1e3:.3f} ms median {statistics.median(times) * 1e3:.3f} ms")
dist.destroy_process_group()
