"""Runs lm-eval tasks, and converts the results to rows and metrics."""
