"""Trackers: where the figures of a run are sent while it goes on, beside the run and never in its way."""
