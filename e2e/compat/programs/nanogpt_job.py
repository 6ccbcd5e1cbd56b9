# Reads what nanoGPT's train.py reads, after the command line of its README: RANK says
# whether it is a distributed job, then LOCAL_RANK and WORLD_SIZE.
# devices: any
# $ torchrun --standalone --nproc_per_node=$N nanogpt_job.py --gradient_accumulation_steps=40
# > rank 0 steps 20 gradient 0.50 master
# > rank 1 steps 20 gradient 0.50
# $ torchrun --nproc_per_node=$N --nnodes=1 --node_rank=0 --master_addr=127.0.0.1 --master_port=$PORT nanogpt_job.py --gradient_accumulation_steps=40
# > rank 0 steps 20 gradient 0.50 master
# > rank 1 steps 20 gradient 0.50
import os
import sys

import torch
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel as DDP

from rank import say

gradient_accumulation_steps = int(sys.argv[1].split("=")[1])
ddp = int(os.environ.get("RANK", -1)) != -1
assert ddp
on_gpu = torch.cuda.device_count() >= int(os.environ["WORLD_SIZE"])
init_process_group(backend="nccl" if on_gpu else "gloo")
ddp_rank = int(os.environ["RANK"])
ddp_local_rank = int(os.environ["LOCAL_RANK"])
ddp_world_size = int(os.environ["WORLD_SIZE"])
device = f"cuda:{ddp_local_rank}" if on_gpu else "cpu"
if on_gpu:
    torch.cuda.set_device(device)
master_process = ddp_rank == 0
assert gradient_accumulation_steps % ddp_world_size == 0
gradient_accumulation_steps //= ddp_world_size
torch.manual_seed(1337 + ddp_rank)
model = DDP(torch.nn.Linear(4, 4).to(device), device_ids=[ddp_local_rank] if on_gpu else None)
for micro_step in range(gradient_accumulation_steps):
    model.require_backward_grad_sync = micro_step == gradient_accumulation_steps - 1
    loss = model(torch.ones(2, 4, device=device)).square().mean() / gradient_accumulation_steps
    loss.backward()
say("rank", ddp_rank, "steps", gradient_accumulation_steps, "gradient %.2f" % model.module.weight.grad.norm().item(), "master" if master_process else "")
destroy_process_group()
