"""The findings and the progress of a verification."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from posttrain.spec.document_json import DocumentError, NewerFormatError


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A damaged or inconsistent item of a home."""

    # product, run or work.
    kind: str
    # The key of the product or of the working directory, or the name of the run.
    name: str
    # The step that created it, if known.
    step: str
    problem: str
    # Repairs the item, with its lock held; None when no repair is possible.
    repair: Callable[[], None] | None = None
    # What the repair does, as text.
    repair_note: str = ""


@dataclass
class VerifyProgress:
    """The number of checked items by kind, and of missing ones that are no finding."""

    counts: Counter[str] = field(default_factory=Counter[str])
    advance: Callable[[int], None] = lambda _: None

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] += number


def finding_text(error: DocumentError) -> str:
    """The problem of a record. The advice is left out where the repair is the advice."""
    return error.full_text if isinstance(error, NewerFormatError) else str(error)
