"""Renders diagnostics as text, JSON, GitHub annotations and SARIF."""
