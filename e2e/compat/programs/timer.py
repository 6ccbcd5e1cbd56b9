# torch.distributed.elastic.timer: timers that are released in time change nothing.
# $ TORCHELASTIC_ENABLE_FILE_TIMER=1 torchrun --standalone --nproc_per_node=$N timer.py
# > rank 0 step 0
# > rank 0 step 1
# > rank 0 step 2
# > rank 1 step 0
# > rank 1 step 1
# > rank 1 step 2
import os
import time

import torch.distributed.elastic.timer as timer

from rank import say

timer.configure(timer.FileTimerClient(os.environ["TORCHELASTIC_TIMER_FILE"]))
for step in range(3):
    with timer.expires(after=60, scope="step"):
        time.sleep(0.5)
        say("rank", os.environ["RANK"], "step", step)
