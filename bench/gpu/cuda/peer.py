"""One rank of torch's NCCL, for bench/gpu/cuda.sh: speed OP:BYTES... prints times as
main.go does; start says when the first all-reduce was done."""
import os
import sys
import time

import torch
import torch.distributed as dist

local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local % torch.cuda.device_count())
dist.init_process_group("nccl")
rank, size = dist.get_rank(), dist.get_world_size()


def median(call, batch, times):
    word = torch.zeros(1, device="cuda")
    took = []
    for i in range(-2, times):
        dist.all_reduce(word)
        torch.cuda.synchronize()
        begin = time.perf_counter_ns()
        for _ in range(batch):
            call()
        torch.cuda.synchronize()
        if i >= 0:
            took.append((time.perf_counter_ns() - begin) / 1000 / batch)
    return sorted(took)[times // 2]


def reps(count):
    if count <= 64 << 10:
        return 200, 9
    return (20, 7) if count <= 16 << 20 else (5, 5)


def speed(arg):
    op, count = arg.split(":")
    count = int(count)
    a = torch.zeros(count // 4, device="cuda")
    b = torch.zeros(count // 4, device="cuda")
    n = max(count // 4 // size, 1)
    part, whole = a[:n], b[: n * size]
    call = {
        "all-reduce": lambda: dist.all_reduce(a),
        "broadcast": lambda: dist.broadcast(a, 0),
        "all-gather": lambda: dist.all_gather_into_tensor(whole, part),
        "reduce-scatter": lambda: dist.reduce_scatter_tensor(part, whole),
        "all-to-all": lambda: dist.all_to_all_single(whole, a[: n * size]),
    }[op]
    single, many = median(call, 1, 31), median(call, *reps(count))
    if rank == 0:
        print(f"time {op} {count} {single:.2f} {many:.2f}", flush=True)


if sys.argv[1] == "start":
    dist.all_reduce(torch.zeros(2, device="cuda"))
    torch.cuda.synchronize()
    print(f"done {rank} {time.time():.6f}", flush=True)
for a in sys.argv[2:]:
    speed(a)
dist.destroy_process_group()
