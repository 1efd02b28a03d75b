"""Checks of stages beyond the form of their keys, one file per kind of problem."""
