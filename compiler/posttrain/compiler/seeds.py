"""Seeds of steps: derived from the recipe's seed and the step's name, so that new steps change no others."""

from posttrain.spec.keys import digest


def seed_for(seed: int, name: str) -> int:
    """A 31-bit seed, which all libraries accept."""
    return int(digest([seed, name])[:8], 16) & 0x7FFFFFFF
