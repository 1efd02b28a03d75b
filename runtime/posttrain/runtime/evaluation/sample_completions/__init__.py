"""Generates rows with models: completions, preference pairs, and conversations."""
