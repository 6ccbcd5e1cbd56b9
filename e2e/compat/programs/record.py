# @record: the traceback of the rank that fails first is in the report.
# ends: 1
# $ torchrun --standalone --nproc_per_node=$N record.py
# > rank 0 attempt 0 sum 2
# > rank 1 attempt 0 sum 2
import os
import time

import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from rank import say, total


@record
def main():
    dist.init_process_group("gloo")
    say("rank", dist.get_rank(), "attempt", os.environ["TORCHELASTIC_RESTART_COUNT"], "sum", total("cpu"))
    if dist.get_rank() == dist.get_world_size() - 1:
        raise ValueError("the loss is not a number")
    time.sleep(600)


if __name__ == "__main__":
    main()
