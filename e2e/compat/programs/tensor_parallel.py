# DTensor's tensor parallel: the result is that of the whole model.
# needs: from torch.distributed.tensor.parallel import parallelize_module; import torch.distributed.tensor
# devices: any
# $ torchrun --standalone --nproc_per_node=$N tensor_parallel.py
import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from rank import backend, device, say

at = device()
dist.init_process_group(backend(at))
mesh = init_device_mesh(at.type, (int(os.environ["WORLD_SIZE"]),), mesh_dim_names=("tp",))
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).to(at)
x = torch.rand(4, 8).to(at)
want = model(x).detach()
parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
got = model(x)
rows = distribute_tensor(torch.arange(16.0, device=at), mesh, [Shard(0)])
say("rank", dist.get_rank(), "has", model[0].weight.to_local().shape[0], "rows, close", torch.allclose(got, want, atol=1e-4),
    "sum", int(rows.full_tensor().sum()), isinstance(rows, DTensor))
dist.destroy_process_group()
