"""Environments, in which a model acts over several turns: one file for each kind, and the episode runner."""
