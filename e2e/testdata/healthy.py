"""Training in which no rank makes progress for long, and none hangs for ever. The first argument
names why: rank 1 does something, and the others wait for it for SECONDS."""
import hashlib
import os
import sys
import time

import torch
import torch.distributed as dist

WHY, SECONDS = sys.argv[1], float(sys.argv[2])
RANK = int(os.environ["RANK"])


def compute():
    """A compilation, or an evaluation: one thread of Python that computes."""
    end = time.monotonic() + SECONDS
    block = b"x" * (1 << 16)
    while time.monotonic() < end:
        hashlib.sha256(block).digest()


def native():
    """Kernels of torch, called now and then."""
    end = time.monotonic() + SECONDS
    m = torch.rand(300, 300)
    while time.monotonic() < end:
        m = torch.mm(m, m).clamp(0, 1)


def checkpoint():
    """Writes with pauses, as to a slow file system."""
    end = time.monotonic() + SECONDS
    with open(os.path.join(os.environ["E2E_DIR"], "checkpoint"), "wb") as f:
        while time.monotonic() < end:
            f.write(os.urandom(1 << 20))
            f.flush()
            os.fsync(f.fileno())
            time.sleep(0.2)


def data():
    """Reads a file in small parts, as from a slow file system."""
    name = os.path.join(os.environ["E2E_DIR"], "data")
    with open(name, "wb") as f:
        f.write(b"x" * (1 << 22))
    end = time.monotonic() + SECONDS
    with open(name, "rb", buffering=0) as f:
        while time.monotonic() < end:
            f.read(1 << 16) or f.seek(0)
            time.sleep(0.1)


def pause():
    """A hang that ends by itself."""
    time.sleep(SECONDS)


def main():
    dist.init_process_group("gloo")
    t = torch.ones(4)
    dist.all_reduce(t)
    if RANK == 1:
        {"compute": compute, "native": native, "checkpoint": checkpoint, "data": data, "pause": pause}[WHY]()
    dist.all_reduce(t)
    print("trained", flush=True)


main()
