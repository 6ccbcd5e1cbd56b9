# Restarts: every rank starts again, with the number of the attempt. The processes meet
# nowhere: under torchrun a process group of the next attempt may find the store of the
# last one.
# $ torchrun --nproc_per_node=$N --master_port=$PORT --max_restarts=2 restart.py
# > rank 0 attempt 0 of 2
# > rank 0 attempt 1 of 2
# > rank 0 attempt 2 of 2
# > rank 1 attempt 0 of 2
# > rank 1 attempt 1 of 2
# > rank 1 attempt 2 of 2
import os
import sys
import time
from pathlib import Path

from rank import say

rank, world = os.environ["RANK"], int(os.environ["WORLD_SIZE"])
attempt, most = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), int(os.environ["TORCHELASTIC_MAX_RESTARTS"])
say("rank", rank, "attempt", attempt, "of", most)
if attempt < most:  # the first to fail ends the others, which shall have printed their lines
    folder, end = Path(os.environ["TORCHELASTIC_ERROR_FILE"]).parent.parent, time.monotonic() + 60
    (folder / f"rank {rank} is here").touch()
    while len(list(folder.glob("rank *"))) < world and time.monotonic() < end:
        time.sleep(0.05)
    sys.exit(3)
