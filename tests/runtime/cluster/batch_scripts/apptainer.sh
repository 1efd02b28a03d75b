#!/bin/bash
#SBATCH --job-name=posttrain-bee847451ad081cc94d3357cf1d5ca7e
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1 --cpus-per-task=1
#SBATCH --gres=gpu:1
#SBATCH --no-requeue
#SBATCH --output=/shared/me/.recipe/work/0123abcd/job-output
export APPTAINERENV_POSTTRAIN_CLUSTER_JOB="$SLURM_JOB_ID"
exec apptainer exec --containall --no-home --nv --bind=/shared/me/.recipe/work/0123abcd:/shared/me/.recipe/work/0123abcd --bind=/shared/me/.recipe/store:/shared/me/.recipe/store:ro --bind=/data/models:/data/models:ro docker://ghcr.io/lab/posttrain@sha256:abababababababababababababababababababababababababababababababab python -m posttrain.runtime.runners.cluster.node_program step /shared/me/.recipe/work/0123abcd
