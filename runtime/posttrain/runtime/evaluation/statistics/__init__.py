"""Metric estimates with confidence intervals, hypothesis tests, and verdicts."""
