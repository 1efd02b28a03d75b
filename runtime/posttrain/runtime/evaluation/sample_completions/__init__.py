"""Rows that models write: completions, pairs, conversations."""
