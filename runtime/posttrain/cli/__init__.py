"""The command line: the top of the arrow."""
