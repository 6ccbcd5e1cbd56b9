# Reads what deepspeed.init_distributed reads: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
# and LOCAL_RANK, all set, or it looks for MPI; and the --local_rank of older scripts.
# devices: any
# $ torchrun --nproc_per_node=$N --master_port=$PORT deepspeed_job.py --deepspeed --deepspeed_config ds_config.json
# > rank 0 local rank -1 sum 2 ds_config.json
# > rank 1 local rank -1 sum 2 ds_config.json
# $ torchrun --standalone --nproc_per_node=$N --no_python bash -c 'exec ${PYTHON_EXEC:-python3} deepspeed_job.py --local_rank=$LOCAL_RANK --deepspeed'
# > rank 0 local rank 0 sum 2 None
# > rank 1 local rank 1 sum 2 None
import argparse
import os

import torch
import torch.distributed as dist

from rank import backend, device, say, total

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
parser.add_argument("--deepspeed", action="store_true")
parser.add_argument("--deepspeed_config")
args = parser.parse_args()
required_env = ["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK"]
assert all(name in os.environ for name in required_env)
assert not [name for name in os.environ if name.startswith(("OMPI_COMM_", "PMI_"))]
assert args.local_rank in (-1, int(os.environ["LOCAL_RANK"]))
at = device()
dist.init_process_group(backend(at), init_method="env://", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
say("rank", dist.get_rank(), "local rank", args.local_rank, "sum", total(at), args.deepspeed_config)
dist.destroy_process_group()
