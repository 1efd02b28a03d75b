"""Creates, loads and saves models and tokenizers."""
