# A DataLoader with processes of its own, forked and spawned, over each rank's part of
# the data.
# $ torchrun --standalone --nproc_per_node=$N dataloader.py
# > rank 0 fork items 32 of ranks {0} by workers {0, 1} sum 2016
# > rank 0 spawn items 32 of ranks {0} by workers {0, 1} sum 2016
# > rank 1 fork items 32 of ranks {1} by workers {0, 1} sum 2016
# > rank 1 spawn items 32 of ranks {1} by workers {0, 1} sum 2016
import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, DistributedSampler, get_worker_info

from rank import say, total


class Numbers(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        return i, int(os.environ["RANK"]), get_worker_info().id


def main():
    dist.init_process_group("gloo")
    data = Numbers()
    for method in "fork", "spawn":
        sampler = DistributedSampler(data, shuffle=False)
        parts = list(DataLoader(data, batch_size=4, sampler=sampler, num_workers=2, multiprocessing_context=method))
        mine = torch.cat([p[0] for p in parts])
        ranks = {int(r) for p in parts for r in p[1]}
        workers = {int(w) for p in parts for w in p[2]}
        say("rank", dist.get_rank(), method, "items", len(mine), "of ranks", ranks, "by workers", workers, "sum", total("cpu", mine.sum()))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
