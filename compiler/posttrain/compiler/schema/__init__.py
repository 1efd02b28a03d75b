"""The JSON Schema of recipes, for editors, `recipe explain` and the reference pages."""
