#!/bin/bash
#SBATCH --job-name=posttrain-bee847451ad081cc94d3357cf1d5ca7e
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1 --cpus-per-task=1
#SBATCH --gres=gpu:8
#SBATCH --no-requeue
#SBATCH --output=/shared/me/.recipe/work/0123abcd/job-output
export APPTAINERENV_POSTTRAIN_CLUSTER_JOB="$SLURM_JOB_ID"
exec srun --nodes=2 --ntasks-per-node=1 --cpus-per-task=1 --kill-on-bad-exit=0 --wait=60 bash -c 'export APPTAINERENV_POSTTRAIN_CLUSTER_NODE_INDEX="$SLURM_NODEID" APPTAINERENV_POSTTRAIN_CLUSTER_NODE="$SLURMD_NODENAME"; exec "$@"' node apptainer exec --containall --no-home --nv --bind=/shared/me/.recipe/work/0123abcd:/shared/me/.recipe/work/0123abcd --bind=/shared/me/.recipe/store:/shared/me/.recipe/store:ro docker://ghcr.io/lab/posttrain@sha256:abababababababababababababababababababababababababababababababab python -m posttrain.runtime.runners.cluster.multi_node_program /shared/me/.recipe/work/0123abcd
