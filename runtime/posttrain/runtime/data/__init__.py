"""Data ops: one file each."""
