"""What a recipe may hold, as JSON Schema: for editors, for `recipe explain` and for the reference."""
