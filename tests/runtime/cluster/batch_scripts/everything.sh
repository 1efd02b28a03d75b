#!/bin/bash
#SBATCH --job-name=posttrain-bee847451ad081cc94d3357cf1d5ca7e
#SBATCH --partition=gpu
#SBATCH --account="lab 7"
#SBATCH --qos=high
#SBATCH --constraint="ib&nvme"
#SBATCH --time=12:00:00
#SBATCH --signal=B:TERM@120
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1 --cpus-per-task=16
#SBATCH --mem=204800M
#SBATCH --gres=gpu:h100:8
#SBATCH --no-requeue
#SBATCH --output=/shared/me/.recipe/work/0123abcd/job-output
#SBATCH --exclusive
#SBATCH --mail-type=FAIL
export LD_LIBRARY_PATH='/opt/cuda lib'
module load cuda/12.8
exec /shared/venv/bin/python -m posttrain.runtime.runners.cluster.node_program step /shared/me/.recipe/work/0123abcd
