"""Reads the files of a recipe at a revision of a git repository, without a change of the working tree."""
