"""Trains a small model with PyTorch's DistributedDataParallel on made-up data.

Runs under gorun and torchrun alike: everything comes from the environment. At
the end it checks that all ranks hold the same parameters and that the loss fell.
"""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = 60


def batch(generator, device):
    """64 samples of y = sum of x plus noise; each rank draws its own."""
    x = torch.randn(64, 16, generator=generator)
    y = x.sum(dim=1, keepdim=True) + 0.01 * torch.randn(64, 1, generator=generator)
    return x.to(device), y.to(device)


def train(device):
    """Returns the trained model and the first and last loss, summed over the ranks."""
    torch.manual_seed(dist.get_rank())  # DDP gives every rank the model of rank 0
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    ids = [device.index] if device.type == "cuda" else None
    model = DistributedDataParallel(model.to(device), device_ids=ids)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    generator = torch.Generator().manual_seed(1000 + dist.get_rank())
    losses = []
    for _ in range(STEPS):
        x, y = batch(generator, device)
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    ends = torch.stack([losses[0], losses[-1]])
    dist.all_reduce(ends)
    return model, ends


def same_everywhere(model):
    """Says whether every rank has exactly these parameters, and what was exchanged."""
    mine = torch.cat([p.detach().flatten() for p in model.parameters()])
    all_ranks = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(all_ranks, mine)
    return all(torch.equal(mine, theirs) for theirs in all_ranks), [mine, *all_ranks]


def main():
    if torch.cuda.is_available() and dist.is_nccl_available():
        backend, device = "nccl", torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        torch.cuda.set_device(device)
    else:
        backend, device = "gloo", torch.device("cpu")
    dist.init_process_group(backend, init_method="env://")
    rank, size = dist.get_rank(), dist.get_world_size()
    model, ends = train(device)
    first, last = (ends / size).tolist()
    same, exchanged = same_everywhere(model)
    # Old releases (1.13) can hang in the group's destructor when it waits, with
    # Python's lock held, for a thread that wants that lock to free a tensor: so
    # the barrier lets the threads finish, and ends and exchanged stay alive.
    dist.barrier()
    dist.destroy_process_group()
    if not same:
        sys.exit(f"ddp: rank {rank}: the ranks' parameters differ")
    if not last < first / 2:
        sys.exit(f"ddp: rank {rank}: the loss went from {first:.3f} to {last:.3f}: it should have halved")
    if rank == 0:
        print(f"ddp: {size} ranks on {backend}, loss {first:.3f} -> {last:.3f}, parameters identical", flush=True)


if __name__ == "__main__":
    main()
