"""Compiles the text of a recipe, a catalog and a target to a plan or diagnostics, without side effects."""
