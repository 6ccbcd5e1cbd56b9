"""What every program here needs: its device, its process group and whole lines."""
import os

import torch
import torch.distributed as dist


def device():
    """Returns the GPU of this local rank if the node has one for each, else the CPU."""
    if torch.cuda.device_count() < int(os.environ["LOCAL_WORLD_SIZE"]):
        return torch.device("cpu")
    own = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(own)
    return own


def backend(at):
    """Returns the backend of collectives on a device."""
    return "nccl" if at.type == "cuda" else "gloo"


def say(*words):
    """Prints a line by one write, so that lines of several ranks never mix."""
    os.write(1, (" ".join(str(w) for w in words) + "\n").encode())


def total(at, value=1):
    """Returns the sum of a value over all ranks."""
    x = torch.full((1,), float(value), device=at)
    dist.all_reduce(x)
    return int(x)
