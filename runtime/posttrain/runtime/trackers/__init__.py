"""Trackers: where the metrics of a run are sent while it runs, by a process of their own."""
