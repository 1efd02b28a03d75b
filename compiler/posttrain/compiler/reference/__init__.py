"""The language and its extensions, explained: for `recipe explain` and for docs/reference."""
