"""Small training programs in which one rank goes wrong, for hangs.sh.

  programs.py SHAPE FAULT

The shape is ddp, fsdp, grid (tensor and data parallel groups), pipeline or batch (a
pipeline of batches of messages). The rank that goes wrong prints "TRUTH rank R"; a comment
"# at: FAULT" marks the line that it is in then, or where it makes the call that differs. All
ranks may share one GPU: each looks like a host of its own to NCCL, which then goes over
sockets.
"""

import os
import signal
import sys
import time

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
os.environ.setdefault("NCCL_HOSTID", f"host{RANK}")
os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
os.environ.setdefault("NCCL_IB_DISABLE", "1")

import torch
import torch.distributed as dist

SHAPE, FAULT = sys.argv[1], sys.argv[2]
AT = int(os.environ.get("FAULT_STEP", "6"))  # the step in which the rank goes wrong
BAD = int(os.environ.get("FAULT_RANK", "2"))


def truth(what):
    print(f"TRUTH rank {RANK}: {what}", flush=True)


def stray(what):
    """Sits in Python for ever: the rank calls nothing any more."""
    truth(what)
    time.sleep(600)  # at: sleep skip


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        if FAULT == "loader" and RANK == BAD and i >= AT:
            time.sleep(600)  # a file system that does not answer
        return torch.full((256,), float(i))


def batches():
    workers = 1 if FAULT == "loader" else 0
    return iter(torch.utils.data.DataLoader(Slow(), batch_size=1, num_workers=workers))


def trouble(step):
    """Goes wrong before a step, in the ways that every shape has."""
    if step != AT or RANK != BAD:
        return
    if FAULT == "sleep":
        stray("sleep")
    if FAULT == "stop":
        truth("stop")
        os.kill(os.getpid(), signal.SIGSTOP)  # at: stop
    if FAULT == "loader":
        truth("loader")


def layers():
    torch.manual_seed(0)
    return torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(4)]).cuda()


def ddp():
    model = torch.nn.parallel.DistributedDataParallel(layers())
    train(model)


def fsdp():
    from torch.distributed.fsdp import fully_shard

    model = layers()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    train(model)


def train(model):
    rate = torch.optim.SGD(model.parameters(), 1e-3)
    data = batches()
    for step in range(20):
        trouble(step)
        x = next(data).cuda()  # at: loader
        loss = model(x).sum()
        if step == AT and RANK == BAD:
            evaluate(loss)
        loss.backward()
        rate.step()
        rate.zero_grad()
        if FAULT == "skip" and step == AT and RANK == BAD:
            stray("skip")
        if FAULT == "ahead" and step == AT and RANK == BAD:
            truth("ahead")
            continue  # without report: this rank is one call ahead from here on
        report(loss)


def evaluate(loss):
    if FAULT == "other":
        truth("other")
        dist.broadcast(torch.zeros(1 << 20, device="cuda"), 0)  # at: other
    if FAULT == "size":
        truth("size")
        dist.all_reduce(torch.zeros(3 << 20, device="cuda"))  # at: size


def report(loss):
    total = loss.detach().clone()
    dist.all_reduce(total)
    return total.item()


def grid():
    """Two tensor parallel groups of 2 ranks in two data parallel groups."""
    mesh = torch.distributed.device_mesh.init_device_mesh("cuda", (WORLD // 2, 2), mesh_dim_names=("data", "tensor"))
    data, tensor = mesh.get_group("data"), mesh.get_group("tensor")
    x = torch.ones(1 << 20, device="cuda")
    for step in range(20):
        trouble(step)
        if FAULT == "skip" and step == AT and RANK == BAD:
            stray("skip")
        if FAULT == "other" and step == AT and RANK == BAD:
            truth("other")
            dist.broadcast(x, dist.get_global_rank(tensor, 0), group=tensor)  # at: other-grid
        elif FAULT == "size" and step == AT and RANK == BAD:
            truth("size")
            dist.all_reduce(torch.ones(3 << 20, device="cuda"), group=tensor)  # at: size-grid
        else:
            forward(x, tensor)
        backward(x, data)
        torch.cuda.synchronize()


def forward(x, tensor):
    dist.all_reduce(x, group=tensor)


def backward(x, data):
    dist.all_reduce(x, group=data)


def pipeline():
    x = torch.ones(1 << 20, device="cuda")
    for step in range(20):
        trouble(step)
        if RANK > 0:
            dist.recv(x, RANK - 1)
        x = x * 2
        if RANK < WORLD - 1:
            if FAULT == "skip" and step == AT and RANK == BAD:
                stray("skip")
            dist.send(x, RANK + 1)
        torch.cuda.synchronize()


def batch():
    """A pipeline that sends on and receives in one batch, as interleaved schedules do."""
    x, y = torch.ones(1 << 20, device="cuda"), torch.ones(1 << 20, device="cuda")
    for step in range(20):
        trouble(step)
        if FAULT == "skip" and step == AT and RANK == BAD:
            stray("skip")
        ops = []
        if RANK > 0:
            ops.append(dist.P2POp(dist.irecv, x, RANK - 1))
        if RANK < WORLD - 1:
            ops.append(dist.P2POp(dist.isend, y, RANK + 1))
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        torch.cuda.synchronize()


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    dist.init_process_group("nccl")
    {"ddp": ddp, "fsdp": fsdp, "grid": grid, "pipeline": pipeline, "batch": batch}[SHAPE]()
    time.sleep(600)  # a rank that NCCL let pass goes on with something else
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
