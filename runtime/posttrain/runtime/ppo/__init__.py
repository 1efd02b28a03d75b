"""Proximal policy optimisation: what it reckons, what it trains, and the trainer that drives it."""
