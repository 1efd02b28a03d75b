"""Seeds: each step draws from the recipe's seed and its own name, so that adding one changes no other."""

from posttrain.spec.keys import digest


def seed_for(seed: int, name: str) -> int:
    """A 31-bit seed; every library that we drive takes one."""
    return int(digest([seed, name])[:8], 16) & 0x7FFFFFFF
