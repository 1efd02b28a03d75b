#!/bin/bash
#SBATCH --job-name=posttrain-bee847451ad081cc94d3357cf1d5ca7e
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1 --cpus-per-task=4
#SBATCH --mem=32768M
#SBATCH --gres=gpu:2
#SBATCH --no-requeue
#SBATCH --output=/shared/me/.recipe/work/0123abcd/job-output
exec srun '--container-image=ghcr.io#lab/posttrain@sha256:abababababababababababababababababababababababababababababababab' --container-mounts=/shared/me/.recipe/work/0123abcd:/shared/me/.recipe/work/0123abcd,/shared/me/.recipe/store:/shared/me/.recipe/store:ro --no-container-mount-home --no-container-remap-root --kill-on-bad-exit=1 python -m posttrain.runtime.runners.cluster.node_program step /shared/me/.recipe/work/0123abcd
