"""The reward ops. Each file declares and computes one op, or a pair of sibling ops."""
