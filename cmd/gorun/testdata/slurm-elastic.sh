#!/bin/bash
#SBATCH --job-name=train
#SBATCH --output=%x-%j.out
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=TERM@300

# Nodes, ranks, workers, run id and meeting place come from Slurm.
srun --kill-on-bad-exit=0 --cpu-bind=none gorun --nnodes=2:4 --requeue-exit-code=99 train.py
code=$?
# gorun ends with 99 when another try may help: a lost node, a failed GPU, SIGTERM.
if [ "$code" = 99 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 3 ]; then
	scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
