"""Estimates of the memory and the time of a stage before it runs, in closed form."""
