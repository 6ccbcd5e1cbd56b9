# `accelerate launch` as the one program of a node: it starts processes of its own, in
# whose environment its values take the place of the outer launcher's.
# needs: import accelerate
# $ torchrun --standalone --nproc_per_node=1 --no_python ${PYTHON_EXEC:-python3} -m accelerate.commands.launch --multi_gpu --num_processes $N --num_machines 1 --machine_rank 0 --main_process_ip 127.0.0.1 --main_process_port $PORT --mixed_precision no --dynamo_backend no accelerate_launch.py
import accelerate_job
