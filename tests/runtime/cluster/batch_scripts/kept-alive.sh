#!/bin/bash
#SBATCH --job-name=posttrain-pool-fa43df2e72370aca9d420f8ea5c
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1 --cpus-per-task=1
#SBATCH --no-requeue
#SBATCH --output=/shared/me/.recipe/nodes/6d91efdfa0ee66ff/output
exec /shared/venv/bin/python -m posttrain.runtime.runners.cluster.node_program serve /shared/me/.recipe/nodes/6d91efdfa0ee66ff 60
