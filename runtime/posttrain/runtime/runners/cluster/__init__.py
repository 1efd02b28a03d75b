"""Runs steps as jobs of a cluster: Slurm and Ray schedule, this package submits, follows and judges."""
