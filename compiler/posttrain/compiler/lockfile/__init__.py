"""`recipe.lock` in the compiler: pins revisions, and checks that the lockfile is up to date."""
