"""What is wrong, gathered; and what a person could do about it."""
