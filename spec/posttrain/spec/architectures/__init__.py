"""Model architectures: the shapes of models, and their configurations in transformers."""
