"""Environments: what is declared, and the stages that act in it."""
