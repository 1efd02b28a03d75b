#!/bin/bash
#SBATCH --job-name=posttrain-bee847451ad081cc94d3357cf1d5ca7e
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1 --cpus-per-task=1
#SBATCH --no-requeue
#SBATCH --output=/shared/me/.recipe/work/0123abcd/job-output
exec /shared/venv/bin/python -m posttrain.runtime.runners.cluster.node_program step /shared/me/.recipe/work/0123abcd
