"""Compilation of reward graphs: typed nodes with ranges, lowered to a flat list."""
