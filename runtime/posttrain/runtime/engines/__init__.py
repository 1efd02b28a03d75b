"""What generates text: one file for each engine."""
