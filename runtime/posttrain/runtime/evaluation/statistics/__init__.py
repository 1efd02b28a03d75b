"""Figures with their intervals, and what may be concluded from them."""
