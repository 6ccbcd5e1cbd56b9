# torch.distributed.elastic.timer: a rank that hangs is killed, and a restart follows.
# needs: import torch; assert torch.__version__ < "2", "the timer server of torch 2.x kills torchrun, too"
# $ TORCHELASTIC_ENABLE_FILE_TIMER=1 torchrun --nproc_per_node=$N --master_port=$PORT --max_restarts=1 timer_expires.py
# > rank 0 attempt 0
# > rank 0 attempt 1
# > rank 0 ends
# > rank 1 attempt 0
# > rank 1 attempt 1
# > rank 1 ends
import os
import time

import torch.distributed.elastic.timer as timer

from rank import say

rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
timer.configure(timer.FileTimerClient(os.environ["TORCHELASTIC_TIMER_FILE"]))
with timer.expires(after=600, scope="in time"):
    say("rank", rank, "attempt", attempt)
if attempt == 0:
    with timer.expires(after=1 if rank == 0 else 600, scope="hangs"):
        time.sleep(300)
        say("rank", rank, "was not killed")
say("rank", rank, "ends")
