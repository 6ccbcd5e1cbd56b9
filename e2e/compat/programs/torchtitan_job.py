# Reads what torchtitan's trainer reads, after the command line of its run_train.sh:
# LOCAL_RANK for the device, WORLD_SIZE for the mesh, env:// for the rest.
# needs: from torch.distributed.fsdp import fully_shard
# devices: any
# $ LOG_RANK=0; torchrun --nproc_per_node=$N --rdzv_backend c10d --rdzv_endpoint="localhost:0" --local-ranks-filter $LOG_RANK --role rank --tee 3 -m torchtitan_job --module llama3 --config llama3_debugmodel
import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.fsdp import fully_shard

from rank import backend, device, say


@record
def main():
    at = device()
    assert at.type == "cpu" or at.index == int(os.environ["LOCAL_RANK"])
    dist.init_process_group(backend(at), timeout=timedelta(seconds=300))
    world = int(os.environ["WORLD_SIZE"])
    mesh = init_device_mesh(at.type, (world, 1), mesh_dim_names=("dp_shard", "tp"))
    torch.manual_seed(1)
    model = fully_shard(torch.nn.Linear(8, 8).to(at), mesh=mesh["dp_shard"])
    loss = model(torch.ones(2, 8, device=at)).square().mean()
    loss.backward()
    say("rank", dist.get_rank(), "of", world, *sys.argv[1:], "loss %.2f" % loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
