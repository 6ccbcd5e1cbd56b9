# torch.distributed.rpc: every rank calls the next one, and keeps an object there.
# $ torchrun --standalone --nproc_per_node=$N rpc.py
# > rank 0 has [1.0, 1.0] and 5 of worker1
# > rank 1 has [2.0, 2.0] and 6 of worker0
# $ torchrun --nproc_per_node=$N --master_port=$PORT rpc.py
# > rank 0 has [1.0, 1.0] and 5 of worker1
# > rank 1 has [2.0, 2.0] and 6 of worker0
import os

import torch
import torch.distributed.rpc as rpc

from rank import say

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


class Counter:
    def __init__(self, start):
        self.value = start

    def add(self, n):
        self.value += n
        return self.value


rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world)
next_one = f"worker{(rank + 1) % world}"
answer = rpc.rpc_sync(next_one, torch.add, args=(torch.ones(2), rank))
there = rpc.remote(next_one, Counter, args=(rank,))
say("rank", rank, "has", answer.tolist(), "and", there.rpc_sync().add(5), "of", there.owner_name())
del there
rpc.shutdown()
