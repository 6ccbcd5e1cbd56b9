"""A training loop in which rank 1 hangs, in the way that the first argument names.

A comment "# at: NAME" marks the line where rank 1 then is, "# waits" that of the others.
"""
import multiprocessing
import os
import queue
import signal
import subprocess
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

FAULT = sys.argv[1]
RANK = int(os.environ["RANK"])
STEPS = 4


class Items(Dataset):
    def __len__(self):
        return 100

    def __getitem__(self, i):
        if FAULT == "dataloader" and RANK == 1 and i == 3:
            time.sleep(600)  # at: dataloader
        return torch.ones(4) * i


def load_data():
    if FAULT == "sleep":
        time.sleep(600)  # at: sleep
    elif FAULT == "lock":
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()  # at: lock
    elif FAULT == "queue":
        queue.Queue().get()  # at: queue
    elif FAULT == "fifo":
        name = os.path.join(os.environ["E2E_DIR"], "fifo")
        os.mkfifo(name)
        open(name).read()  # at: fifo
    elif FAULT == "child":
        subprocess.run(["sleep", "600"])  # at: child
    elif FAULT == "pool":
        with multiprocessing.Pool(1) as pool:
            pool.apply(parse, (7,))
    elif FAULT == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)  # at: stopped
    elif FAULT == "endless":
        while True:
            time.sleep(0.001)  # at: endless
    elif FAULT == "receive":
        dist.recv(torch.ones(1), src=0)  # at: receive
    elif FAULT == "barrier":
        dist.barrier()  # at: barrier


def parse(item):
    time.sleep(600)  # at: pool


def step(t, group=None):
    if FAULT == "other" and RANK == 1:
        dist.broadcast(t, src=0)  # at: other
    else:
        dist.all_reduce(t)  # waits


def main():
    dist.init_process_group("gloo")
    pairs = [dist.new_group([0, 1]), dist.new_group([1, 2])]
    loader = iter(DataLoader(Items(), num_workers=1, prefetch_factor=1) if FAULT == "dataloader" else Items())
    for i in range(STEPS):
        t = next(loader)
        if i == STEPS - 1:
            if RANK == 1:
                load_data()
            if FAULT == "groups" and RANK < 2:
                if RANK == 1:
                    time.sleep(600)  # at: groups
                dist.all_reduce(t, group=pairs[0])  # waits in its group
            step(t)
        else:
            dist.all_reduce(t)


main()
