"""The text of a recipe as values that know where they stand."""
