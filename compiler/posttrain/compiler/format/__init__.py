"""`recipe fmt`: one canonical way to write a recipe, which keeps its comments and its meaning."""
