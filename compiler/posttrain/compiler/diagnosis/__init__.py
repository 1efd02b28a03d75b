"""Collection of diagnostics, and suggestions for fixes."""
