#!/bin/bash
#SBATCH --job-name=posttrain-bee847451ad081cc94d3357cf1d5ca7e
#SBATCH --time=12:00:00
#SBATCH --signal=TERM@120
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1 --cpus-per-task=8
#SBATCH --mem=65536M
#SBATCH --gres=gpu:8
#SBATCH --no-requeue
#SBATCH --output=/shared/me/.recipe/work/0123abcd/job-output
exec srun --nodes=2 --ntasks-per-node=1 --cpus-per-task=8 --kill-on-bad-exit=0 --wait=60 /shared/venv/bin/python -m posttrain.runtime.runners.cluster.multi_node_program /shared/me/.recipe/work/0123abcd
