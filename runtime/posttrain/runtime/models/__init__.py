"""Making, loading and saving models and tokenizers."""
