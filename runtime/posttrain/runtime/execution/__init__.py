"""Executes the steps of a plan within the resources of the machine."""
