#!/bin/bash
#SBATCH --job-name=posttrain-bee847451ad081cc94d3357cf1d5ca7e
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1 --cpus-per-task=1
#SBATCH --gres=gpu:8
#SBATCH --no-requeue
#SBATCH --output=/shared/me/.recipe/work/0123abcd/job-output
exec srun --nodes=2 --ntasks-per-node=1 --cpus-per-task=1 --kill-on-bad-exit=0 --wait=60 '--container-image=ghcr.io#lab/posttrain@sha256:abababababababababababababababababababababababababababababababab' --container-mounts=/shared/me/.recipe/work/0123abcd:/shared/me/.recipe/work/0123abcd,/shared/me/.recipe/store:/shared/me/.recipe/store:ro --no-container-mount-home --no-container-remap-root python -m posttrain.runtime.runners.cluster.multi_node_program /shared/me/.recipe/work/0123abcd
