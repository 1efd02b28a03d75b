"""Placement of stages on the target: processes, strategy, micro-batch, rollouts, memory and time."""
