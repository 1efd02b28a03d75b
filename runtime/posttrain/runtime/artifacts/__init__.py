"""Recipes and products as OCI artifacts (docs/artifacts.md)."""
