# A Lightning Trainer finds torchrun's environment by TORCHELASTIC_RUN_ID and reads RANK,
# LOCAL_RANK, GROUP_RANK and WORLD_SIZE.
# needs: import pytorch_lightning
# devices: any
# $ torchrun --standalone --nproc_per_node=$N lightning_job.py
import os
import warnings

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

from rank import say

warnings.simplefilter("ignore")
world = int(os.environ["WORLD_SIZE"])


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, _):
        loss = self.layer(batch[0]).square().mean()
        self.last = loss.item()
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


pl.seed_everything(1)
on_cpu = torch.cuda.device_count() < world
trainer = pl.Trainer(
    accelerator="cpu" if on_cpu else "gpu", devices=world, num_nodes=1, strategy="ddp", max_steps=3, logger=False,
    enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
model = Model()
trainer.fit(model, DataLoader(TensorDataset(torch.ones(32, 4)), batch_size=4))
environment = type(trainer.strategy.cluster_environment).__name__
say("rank", trainer.global_rank, "of", trainer.world_size, "local", trainer.local_rank, "node", trainer.node_rank, environment, "loss %.2f" % model.last)
