"""Proximal policy optimisation: advantages, losses, rollouts, and the trainer."""
