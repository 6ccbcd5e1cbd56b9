"""Stands in for a program of PyTorch that hangs: it makes a pipe, and writes a dump of the
flight recorder for each byte. Rank 2 left the second all-reduce out."""

import os
import pickle
import time

rank = int(os.environ["RANK"])
pipe = f"{os.environ['TORCH_NCCL_DEBUG_INFO_PIPE_FILE']}{rank}.pipe"
os.mkfifo(pipe)
fd = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)


def call(number, state):
    return {
        "record_id": number - 1, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": number,
        "p2p_seq_id": 0, "op_id": number, "profiling_name": "nccl:all_reduce", "time_created_ns": time.time_ns(),
        "input_sizes": [[4]], "input_dtypes": ["Float"], "state": state, "is_p2p": False,
        "frames": [{"name": "step", "filename": "/home/user/train.py", "line": 12}],
    }


calls = [call(1, "completed")]
if rank != 2:
    calls.append(call(2, "scheduled"))
print("recording", flush=True)
while True:
    if os.read(fd, 1):
        dump = {"version": "2.10", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}, "entries": calls}
        with open(f"{os.environ['TORCH_FR_DUMP_TEMP_FILE']}{rank}", "wb") as f:
            pickle.dump(dump, f, protocol=2)
    time.sleep(0.2)
