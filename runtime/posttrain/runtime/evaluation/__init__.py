"""Evaluation: samples completions, scores them with reward graphs, computes metrics, and decides gates."""
