"""The engines, which generate text with models. One file for each engine."""
