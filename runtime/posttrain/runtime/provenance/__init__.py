"""Signed statements about how products were made, and their verification (docs/provenance.md)."""
