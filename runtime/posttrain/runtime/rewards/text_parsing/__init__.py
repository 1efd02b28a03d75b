"""What reward ops read out of completions: numbers, JSON, tool calls, bounded regular expressions."""
