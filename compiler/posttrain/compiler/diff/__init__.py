"""Comparison of two plans: what changed, and which steps have to run again."""
