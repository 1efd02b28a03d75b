"""Processes in which what a user has written runs: killed when a call takes too long."""
