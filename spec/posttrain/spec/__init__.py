"""What a recipe and a plan are."""
