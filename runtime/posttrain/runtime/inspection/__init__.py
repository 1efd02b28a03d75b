"""Reads the runs of a home: their states, results, logs and products."""
