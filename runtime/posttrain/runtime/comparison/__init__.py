"""Comparison of runs: metrics with paired intervals, training curves, changed items, one page."""
