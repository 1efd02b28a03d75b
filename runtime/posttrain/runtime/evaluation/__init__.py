"""Completions scored by reward graphs, and the tables that they become."""
