"""Runs user code in a separate process, which is killed when a call times out."""
