"""What steps have spent, in tokens and dollars, at the prices of the plan."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from posttrain.runtime.report.api_usage_table import planned_calls, spent_dollars
from posttrain.runtime.report.number_format import finite_or_none, mapping_or_empty
from posttrain.runtime.report.run_record import RunRecord, StepRecord

_HOUR = 3600.0


@dataclass(frozen=True, kw_only=True)
class Spending:
    """Dollars of the hardware for the measured time, and of endpoints for the measured tokens."""

    hardware: float = 0.0
    api: float = 0.0
    # Whether the price of every part is known.
    complete: bool = True

    @property
    def total(self) -> float:
        return self.hardware + self.api


def step_spending(record: StepRecord, target: Mapping[str, Any]) -> Spending | None:
    """The dollars of a step; None if no part of them is known."""
    rate = hardware_rate(record, target)
    hardware = None if rate is None or record.seconds is None else rate * record.seconds
    calls = planned_calls(record)
    api = [
        spent_dollars(usage, [one for one in calls if one.get("endpoint") == name])
        for name, usage in record.api_usage.items()
    ]
    known = [dollars for dollars in api if dollars is not None]
    if hardware is None and not known:
        return None
    return Spending(hardware=hardware or 0.0, api=sum(known), complete=len(known) == len(api))


def hardware_rate(record: StepRecord, target: Mapping[str, Any]) -> float | None:
    """The dollars per second of what a step reserves; None without a price.

    The parts of an estimate have the price of the GPUs of the step. Without GPUs it is that of one machine.
    """
    parts = record.estimate.get("parts")
    rows = [mapping_or_empty(part) for part in parts] if isinstance(parts, list | tuple) else []
    dollars = sum(finite_or_none(row.get("dollars")) or 0.0 for row in rows)
    seconds = sum(finite_or_none(row.get("seconds")) or 0.0 for row in rows)
    if dollars > 0 and seconds > 0:
        return dollars / seconds
    price = finite_or_none(target.get("price_per_hour"))
    return price / _HOUR if price and not target.get("gpus") else None


def expected_dollars(record: StepRecord) -> float | None:
    """The dollars that the plan estimated, for hardware and endpoints."""
    return finite_or_none(record.estimate.get("dollars")) or None


def trained_tokens(record: StepRecord) -> float | None:
    """The tokens of a training, which its trainer counts."""
    sums = record.events.progress.tokens
    return sums[-1][1] if sums else None


def api_tokens(record: StepRecord) -> int | None:
    """The tokens that endpoints reported."""
    found = sum(usage.input_tokens + usage.output_tokens for usage in record.api_usage.values())
    return found or None


def executed_steps(run: RunRecord) -> list[StepRecord]:
    """The steps that this run itself paid for."""
    return [r for r in run.steps if r.state not in ("cached", "skipped") and r.began is not None]


def run_spending(run: RunRecord) -> Spending | None:
    """The dollars of the steps that this run executed; None if none is known."""
    return sum_spending(step_spending(record, run.plan.target) for record in executed_steps(run))


def sum_spending(found: Iterable[Spending | None]) -> Spending | None:
    """The sum of what is known."""
    known = [one for one in found if one is not None]
    if not known:
        return None
    return Spending(
        hardware=sum(one.hardware for one in known),
        api=sum(one.api for one in known),
        complete=all(one.complete for one in known),
    )
