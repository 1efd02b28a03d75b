"""Data types of recipes, plans, lockfiles and extensions, shared by the compiler and the runtime."""
