"""Evaluates reward graphs over batches of completions."""
