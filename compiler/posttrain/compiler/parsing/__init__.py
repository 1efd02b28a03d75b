"""Passes from bytes to typed declarations, before name resolution."""
