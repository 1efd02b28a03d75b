"""Persistent state: the store, the runs with their journals, and the locks."""
