"""Places in which a model acts over several turns: the kinds, a file each, and how they are played."""
