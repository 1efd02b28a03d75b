"""Checks before the first step of a run: what the steps need exists, and answers."""
