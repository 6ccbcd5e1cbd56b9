# Reads what Megatron-LM reads, after the command line of its examples: RANK, WORLD_SIZE
# and LOCAL_RANK with defaults, env:// with both given, CUDA_DEVICE_MAX_CONNECTIONS=1;
# then groups for tensor, data and pipeline parallelism.
# devices: any
# $ export CUDA_DEVICE_MAX_CONNECTIONS=1; torchrun --nproc_per_node $N --nnodes 1 --master_addr localhost --master_port $PORT megatron_job.py --tensor-model-parallel-size $N --train-iters 500000 --fp16
# > rank 0 of 2 tensor group 2 data group 1 sum 1 2
# > rank 1 of 2 tensor group 2 data group 1 sum 1 2
import argparse
import os
from datetime import timedelta

import torch
import torch.distributed as dist

from rank import backend, say, total

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--tensor-model-parallel-size", type=int, default=1)
parser.add_argument("--train-iters", type=int)
parser.add_argument("--fp16", action="store_true")
args = parser.parse_args()
args.rank = int(os.getenv("RANK", "0"))
args.world_size = int(os.getenv("WORLD_SIZE", "1"))
args.local_rank = int(os.getenv("LOCAL_RANK", "0"))
assert os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS") == "1"

at = torch.device("cpu")
if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):
    at = torch.device("cuda", args.local_rank % torch.cuda.device_count())
    torch.cuda.set_device(at)
dist.init_process_group(backend(at), world_size=args.world_size, rank=args.rank, timeout=timedelta(minutes=10))
size = args.tensor_model_parallel_size
tensor = [dist.new_group(list(range(i, i + size))) for i in range(0, args.world_size, size)][args.rank // size]
data = [dist.new_group(list(range(i, args.world_size, size))) for i in range(size)][args.rank % size]
x = torch.full((1,), float(args.rank), device=at)
dist.all_reduce(x, group=tensor)
say("rank", args.rank, "of", args.world_size, "tensor group", dist.get_world_size(tensor), "data group", dist.get_world_size(data), "sum", int(x), total(at))
dist.destroy_process_group()
