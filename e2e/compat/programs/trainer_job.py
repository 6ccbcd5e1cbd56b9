# The Trainer of Hugging Face Transformers, with a model that needs no download.
# needs: import transformers, accelerate
# devices: any
# $ torchrun --standalone --nproc_per_node=$N trainer_job.py
import os
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from torch.utils.data import Dataset

from rank import say


class Lines(Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, i):
        words = torch.arange(i, i + 8) % 64
        return {"input_ids": words, "labels": words}


on_cpu = torch.cuda.device_count() < int(os.environ["LOCAL_WORLD_SIZE"])
transformers.set_seed(1)
config = transformers.GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
with tempfile.TemporaryDirectory() as out:
    args = transformers.TrainingArguments(
        out, use_cpu=on_cpu, max_steps=3, per_device_train_batch_size=4, report_to=[], save_strategy="no", disable_tqdm=True, logging_steps=100, ddp_backend="gloo" if on_cpu else None)
    trainer = transformers.Trainer(transformers.GPT2LMHeadModel(config), args, train_dataset=Lines())
    trainer.remove_callback(transformers.PrinterCallback)  # it prints how long it took
    result = trainer.train()
say("rank", args.process_index, "of", args.world_size, "local", args.local_process_index, args.parallel_mode.value, "steps", result.global_step, "loss %.2f" % result.training_loss)
