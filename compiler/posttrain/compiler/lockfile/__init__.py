"""`recipe.lock` in the compiler: revisions are taken from it, and a recipe is held to it."""
