#!/bin/bash
#SBATCH --job-name=train
#SBATCH --output=%x-%j.out
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=h100:8
#SBATCH --time=1-00:00:00
#SBATCH --partition=big
#SBATCH --account=me
#SBATCH --exclusive
#SBATCH --reservation=r

# Nodes, ranks, workers, run id and meeting place come from Slurm.
srun --kill-on-bad-exit=1 --wait=60 --cpu-bind=none gorun --max-restarts=2 train.py --lr 0.1
