"""Adds the calls of endpoints to the estimates of the stages: time, tokens, and dollars where a price is
known."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from posttrain.compiler.api_costs.api_calls import ApiCalls, stage_calls
from posttrain.compiler.api_costs.api_durations import ASSUMED_SPEED, api_share
from posttrain.compiler.api_costs.api_prices import find_price, unknown_price_reason
from posttrain.compiler.placement.estimate_record import part_record, total_record
from posttrain.compiler.placement.stage_placement import StagePlacement
from posttrain.compiler.semantic_checks import CheckedRecipe

UNKNOWN_COUNT = "the number of requests is not known before the run"


def add_api_estimates(
    checked: CheckedRecipe, placed: Mapping[str, StagePlacement]
) -> Mapping[str, StagePlacement]:
    """Return the placements with the calls of endpoints in their estimates."""
    found = dict(placed)
    for name in checked.resolved.recipe.stages:
        calls = list(stage_calls(name, checked))
        if calls:
            placement = found.get(name, StagePlacement())
            timed = _with_time(placement.estimate, calls)
            found[name] = replace(placement, estimate=_with_calls(timed, [_api_record(one) for one in calls]))
    return found


def _with_time(estimate: Mapping[str, Any] | None, calls: list[ApiCalls]) -> Mapping[str, Any]:
    """Return an estimate with the time of the calls, if the time of the other parts is known."""
    known = estimate or {}
    if estimate is not None and "parts" not in known:
        return known
    shares = [share for share in map(api_share, calls) if share is not None]
    if len(shares) < len(calls):
        return {"unknown_reason": UNKNOWN_COUNT, **known}
    # The GPUs of a stage wait for its calls.
    before = known.get("parts", ())
    seconds = sum(one["seconds"] for one in before)
    price = sum(one["dollars"] for one in before) / seconds if seconds else 0.0
    parts = [*before, *(part_record(share, price) for share in shares)]
    return {**known, **total_record(parts), "assumes": [*known.get("assumes", ()), ASSUMED_SPEED]}


def _with_calls(estimate: Mapping[str, Any], calls: list[dict[str, Any]]) -> dict[str, Any]:
    """Return an estimate with these calls; its dollars include them."""
    known = [_middle(one) for one in calls if "dollars_max" in one]
    before = dict(estimate)
    if known:
        before["dollars"] = round(before.get("dollars", 0.0) + sum(known), 2)
    return {**before, "api": calls}


def _middle(record: Mapping[str, Any]) -> float:
    return (record["dollars_min"] + record["dollars_max"]) / 2


def _api_record(calls: ApiCalls) -> dict[str, Any]:
    """Return the calls as plain data: their number, tokens and dollars as ranges."""
    price = find_price(calls.endpoint)
    record: dict[str, Any] = {
        "endpoint": calls.name,
        "model": calls.endpoint.model,
        "purpose": calls.purpose,
    }
    if price is not None:
        record["price"] = {"input": price.input, "output": price.output, "source": price.source}
    else:
        record["price_unknown"] = unknown_price_reason(calls.name, calls.endpoint)
    if calls.items is None:
        return {**record, "unknown_reason": UNKNOWN_COUNT}
    least, most = calls.items * calls.calls.least, calls.items * calls.calls.most
    asked = calls.items if calls.calls.least else 0
    tokens = {
        "calls_min": least,
        "calls_max": most,
        "input_tokens_min": least * calls.input.least,
        "input_tokens_max": most * calls.input.most,
        "output_tokens_min": asked * calls.output.least,
        "output_tokens_max": calls.items * calls.output.most,
    }
    if price is None:
        return {**record, **tokens}
    low = price.dollars(tokens["input_tokens_min"], tokens["output_tokens_min"])
    high = price.dollars(tokens["input_tokens_max"], tokens["output_tokens_max"])
    return {**record, **tokens, "dollars_min": round(low, 4), "dollars_max": round(high, 4)}
