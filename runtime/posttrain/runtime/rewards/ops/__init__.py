"""The reward ops: one file each, which declares the op and computes it."""
