# Training with DistributedDataParallel: every rank ends with the same parameters.
# devices: any
# $ torchrun --standalone --nproc_per_node=$N ddp.py
# > rank 0 of 2 same True loss 0.03
# > rank 1 of 2 same True loss 0.02
# $ torchrun --nproc_per_node $N --master_port $PORT --rdzv_conf timeout=60 ddp.py
# > rank 0 of 2 same True loss 0.03
# > rank 1 of 2 same True loss 0.02
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

from rank import backend, device, say

at = device()
dist.init_process_group(backend(at))
rank = dist.get_rank()
torch.manual_seed(1)
model = DDP(torch.nn.Linear(4, 2).to(at), device_ids=[at.index] if at.type == "cuda" else None)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    torch.manual_seed(100 * step + rank)
    loss = model(torch.rand(8, 4).to(at)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
weights = torch.cat([p.detach().flatten() for p in model.parameters()])
every = [torch.empty_like(weights) for _ in range(dist.get_world_size())]
dist.all_gather(every, weights)
say("rank", rank, "of", dist.get_world_size(), "same", all(torch.equal(w, weights) for w in every), "loss %.2f" % loss.item())
dist.destroy_process_group()
