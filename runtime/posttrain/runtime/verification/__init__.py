"""Holds a home to its own records: all that carries a seal or a digest is read again."""
