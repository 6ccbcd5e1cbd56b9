#!/bin/bash
#SBATCH --job-name=name
#SBATCH --output=%x-%j.out
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=TERM@90

# Nodes, ranks, workers, run id and meeting place come from Slurm.
srun --kill-on-bad-exit=1 --wait=60 --cpu-bind=none --cpus-per-task=16 gorun --requeue-exit-code=75 --export=A=1 -- train.py
code=$?
# gorun ends with 75 when another try may help: a lost node, a failed GPU, SIGTERM.
if [ "$code" = 75 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 3 ]; then
	scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
