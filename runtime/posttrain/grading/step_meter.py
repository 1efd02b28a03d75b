"""Counts the steps of numerical evaluation. The count depends on the texts alone, not on the machine."""

from dataclasses import dataclass

MAX_STEPS = 800_000
BASE_DIGITS = 60  # a step is one arithmetic operation with this many digits


class StepLimit(Exception):
    """An evaluation takes too many steps. It ends the whole comparison."""


@dataclass(slots=True)
class StepMeter:
    remaining: int = MAX_STEPS

    def restart(self) -> None:
        self.remaining = MAX_STEPS

    def spend(self, steps: int, digits: int) -> None:
        self.remaining -= steps * (1 + digits // BASE_DIGITS)
        if self.remaining < 0:
            raise StepLimit(f"more than {MAX_STEPS:,} steps of numerical evaluation")


METER = StepMeter()  # of this process: a worker grades one pair at a time
