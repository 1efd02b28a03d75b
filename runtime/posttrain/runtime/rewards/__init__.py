"""Reward ops: one file each."""
