# Stores by hand: the one at MASTER_ADDR:MASTER_PORT, opened as torch itself does, and one
# that rank 0 opens at a port of its own.
# $ torchrun --standalone --nproc_per_node=$N tcpstore.py
# > rank 0 reads [0, 1] swaps b'new'
# > rank 0 sum 1
# > rank 1 reads [0, 1] swaps b'new'
# > rank 1 sum 1
# $ torchrun --nproc_per_node=$N --master_port=$PORT tcpstore.py
# > rank 0 reads [0, 1] swaps b'new'
# > rank 0 sum 1
# > rank 1 reads [0, 1] swaps b'new'
# > rank 1 sum 1
import os
from datetime import timedelta

import torch.distributed as dist

from rank import device, say, total

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
addr, limit = os.environ["MASTER_ADDR"], timedelta(seconds=60)
serves = rank == 0 and os.environ["TORCHELASTIC_USE_AGENT_STORE"] != "True"
given = dist.TCPStore(addr, int(os.environ["MASTER_PORT"]), world, serves, limit)
mine = dist.PrefixStore("mine", given)
if rank == 0:
    own = dist.TCPStore(addr, 0, world, True, limit, wait_for_workers=False)
    mine.set("port", str(own.port))
else:
    own = dist.TCPStore(addr, int(mine.get("port")), world, False, limit)
own.set(f"from {rank}", "x" * rank)
own.wait([f"from {r}" for r in range(world)], limit)
say("rank", rank, "reads", [len(own.get(f"from {r}")) for r in range(world)], "swaps", own.compare_set(f"swap {rank}", "", "new"))
if own.add("arrived", 1) == world:
    own.set("all", "yes")
own.wait(["all"], limit)
dist.init_process_group("gloo", store=dist.PrefixStore("group", own), rank=rank, world_size=world)
say("rank", rank, "sum", total("cpu", rank))
dist.destroy_process_group()
if rank == 0:  # it serves the others, and leaves last
    own.wait([f"{r} leaves" for r in range(1, world)], limit)
else:
    own.set(f"{rank} leaves", "")
