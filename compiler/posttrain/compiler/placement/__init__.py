"""How stages lie on the target: processes, strategy, micro-batch and rollouts, with memory and time."""
