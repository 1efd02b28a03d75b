"""Checks of `benchmark` stages: their tasks, and what the tasks require of a model."""
