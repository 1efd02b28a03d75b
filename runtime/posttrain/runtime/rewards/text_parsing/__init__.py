"""Parsers that reward ops share: numbers, JSON, tool calls, regular expressions with a time limit."""
