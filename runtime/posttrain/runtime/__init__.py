"""The only place with effects: it executes plans."""
