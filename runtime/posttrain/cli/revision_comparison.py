"""What `recipe plan --against` compares: a plan, and what changed since a revision."""

from typing import TYPE_CHECKING

from posttrain.cli.diff_report import DiffReport
from posttrain.spec.record import record

if TYPE_CHECKING:
    from posttrain.spec.plan import Plan


@record(kw_only=True)
class RevisionComparison:
    """The plan of a recipe, and what changed since a revision."""

    plan: "Plan"
    revision: str
    commit: str
    # Why there is nothing to compare with; then `report` lists all steps as new.
    absence: str
    # What a reader has to know about the comparison.
    notes: tuple[str, ...]
    report: DiffReport
