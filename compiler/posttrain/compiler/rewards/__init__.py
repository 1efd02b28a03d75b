"""Reward graphs: typed, with ranges, lowered to a flat list of nodes."""
