"""Checks of each kind of stage: its parameters, columns and metrics."""
