"""Runs a reward graph: its nodes in order, over batches of completions."""
