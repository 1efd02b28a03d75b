"""Lowers a checked and placed recipe to the steps of a plan."""
