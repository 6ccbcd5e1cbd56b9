# FSDP2: fully_shard divides the parameters among the ranks.
# needs: from torch.distributed.fsdp import fully_shard
# devices: any
# $ torchrun --standalone --nproc_per_node=$N fsdp2.py
import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from rank import backend, device, say

at = device()
dist.init_process_group(backend(at))
mesh = init_device_mesh(at.type, (int(os.environ["WORLD_SIZE"]),), mesh_dim_names=("dp",))
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).to(at)
for layer in model:
    if any(True for _ in layer.parameters()):
        fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for step in range(3):
    torch.manual_seed(100 * step + dist.get_rank())
    loss = model(torch.rand(8, 8).to(at)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
whole = sum(p.full_tensor().numel() for p in model.parameters())
mine = sum(p.to_local().numel() for p in model.parameters())
say("rank", dist.get_rank(), "has", mine, "of", whole, "parameters, loss %.2f" % loss.item())
dist.destroy_process_group()
