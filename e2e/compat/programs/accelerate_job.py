# Hugging Face Accelerate: what its state says of this process.
# needs: import accelerate
# devices: any
# $ torchrun --standalone --nproc_per_node=$N accelerate_job.py
# $ torchrun --nproc_per_node=$N --master_port=$PORT accelerate_job.py
import os

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object

from rank import say

on_cpu = torch.cuda.device_count() < int(os.environ["LOCAL_WORLD_SIZE"])
accelerator = Accelerator(cpu=on_cpu)
torch.manual_seed(1)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = accelerator.prepare(model, optimizer)
loss = model(torch.ones(2, 4, device=accelerator.device)).square().mean()
accelerator.backward(loss)
optimizer.step()
say("rank", accelerator.process_index, "of", accelerator.num_processes, "local", accelerator.local_process_index,
    accelerator.distributed_type, accelerator.device.type, "loss %.2f" % loss.item(), gather_object([accelerator.process_index]))
accelerator.end_training()
