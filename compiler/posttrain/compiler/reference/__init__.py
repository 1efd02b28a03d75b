"""The reference of the language and its extensions, for `recipe explain` and docs/reference."""
