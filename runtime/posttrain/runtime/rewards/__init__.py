"""Reward graphs: the ops, the engine that runs a graph, and the parsers that ops share."""
