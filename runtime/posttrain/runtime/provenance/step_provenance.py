"""What a home records about the production of a step: launch, hardware, times, run."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from posttrain.runtime.events import read_events
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.products import Product
from posttrain.runtime.store.runs import find_step_key, list_runs
from posttrain.spec.provenance_statement import contents_digest
from posttrain.spec.record import record

if TYPE_CHECKING:
    from posttrain.spec.plan import Plan, Step
    from posttrain.spec.product_manifest import LaunchRecord


@record(kw_only=True)
class StepRecord:
    """A step with its product, as recorded or as published."""

    id: str
    key: str
    # The digest of the files; None if the product is not known.
    contents: str | None
    launch: "LaunchRecord | None" = None
    hardware: Mapping[str, str] | None = None
    # The sha256 of each file, if known.
    files: Mapping[str, str] | None = None


def step_record(step: "Step", product: Product) -> StepRecord:
    return StepRecord(
        id=step.id,
        key=product.key,
        contents=contents_digest(product.digests),
        launch=product.manifest.launch,
        hardware=hardware_of(product),
        files=product.digests,
    )


def hardware_of(product: Product) -> Mapping[str, str] | None:
    """The hardware of the last execution of a step; None if it is not recorded."""
    events = _events(product)
    found = next((event.get("hardware") for event in events if event["kind"] == "started"), None)
    if not isinstance(found, dict):
        return None
    fields = cast(dict[str, Any], found)
    return {name: value for name, value in fields.items() if isinstance(value, str)}


def _events(product: Product) -> list[dict[str, Any]]:
    """The events of the last execution of a step; none if they are damaged."""
    try:
        return read_events(product.record / "events.jsonl")
    except ValueError:
        return []


def times_of(product: Product) -> tuple[str | None, str | None]:
    """The start and the end of the last execution of a step, in UTC."""
    events = _events(product)
    at = {event["kind"]: event.get("at") for event in events}
    start, end = (at.get(kind) for kind in ("started", "finished"))
    return _timestamp(start), _timestamp(end)


def _timestamp(seconds: object) -> str | None:
    if not isinstance(seconds, int | float):
        return None
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def run_of(home: Home, step: "Step") -> str | None:
    """The name of the first run of the home that had the product of a step."""
    return next((run.name for run in list_runs(home) if find_step_key(run, step.id) == step.key), None)


def ancestors(plan: "Plan", id: str) -> "list[Step]":
    """The steps whose products a step depends on, in the order of the plan."""
    needed = {id}
    for step in reversed(plan.steps):
        if step.id in needed:
            needed.update(source.step for source in step.inputs.values())
    return [step for step in plan.steps if step.id in needed - {id}]
