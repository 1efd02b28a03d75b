"""Calls of endpoints: the tokens and the dollars that a stage is expected to spend."""
