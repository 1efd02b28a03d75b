"""Runs the steps of a plan, within what the machine has."""
