"""The reward ops: a file declares an op, or a pair of sibling ops, and computes it."""
