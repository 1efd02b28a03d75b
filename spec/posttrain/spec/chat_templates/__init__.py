"""The chat templates that a recipe can name."""
