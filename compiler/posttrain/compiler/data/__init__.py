"""Compilation of datasets: the resulting columns, and the operations that the runtime executes."""
