"""Rank 1 fails while the others wait for it in a collective.

How depends on the round: an exception, or an exit without a word. The others
then fail too, as a consequence.
"""

import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo", init_method="env://")
rank = dist.get_rank()
dist.all_reduce(torch.ones(1))
if rank == 1:
    if int(os.environ["TORCHELASTIC_RESTART_COUNT"]) % 2:
        os._exit(5)
    raise ValueError("the loss is not a number")
dist.all_reduce(torch.ones(1))
print(f"rank {rank} went on without rank 1", flush=True)
