#!/bin/bash
#SBATCH --job-name=train
#SBATCH --output=%x-%j.out
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1

# Nodes, ranks, workers, run id and meeting place come from Slurm.
srun --kill-on-bad-exit=1 --wait=60 --cpu-bind=none gorun train.py
