"""Executes plans. All side effects of the product happen in this package."""
