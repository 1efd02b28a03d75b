"""The text of a recipe, and the tree of its values with their source locations."""
