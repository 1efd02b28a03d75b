"""Sends the metrics of a run to experiment trackers, from a separate process."""
