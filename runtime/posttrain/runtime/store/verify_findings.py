"""What a verification finds, and what it has looked at."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that is not as it was made."""

    # product, run or work: whose it is.
    kind: str
    # The key of the product or of the work; the name of the run.
    name: str
    # The step that made it, where that is still known.
    step: str
    problem: str
    # Puts it right, under the lock that is taken for that; None where nothing can.
    repair: Callable[[], None] | None = None
    # What that comes to, in words.
    repair_note: str = ""


@dataclass
class VerifyProgress:
    """How much was looked at, by what it is; and what is merely not there."""

    counts: Counter[str] = field(default_factory=Counter[str])
    advance: Callable[[int], None] = lambda _: None

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] += number
