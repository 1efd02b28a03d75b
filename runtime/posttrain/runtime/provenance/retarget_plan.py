"""Rewrites a plan for the libraries of this machine, so that its keys say what really runs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from posttrain.spec.keys import digest, key_from_parts

if TYPE_CHECKING:
    from posttrain.spec.plan import Plan, Step

_ENVIRONMENT = "environment"
_IMAGE = "image"


def retarget_plan(plan: "Plan", stack: Mapping[str, str]) -> "Plan":
    """The plan with these versions of the libraries. Steps in containers keep their images."""
    found: dict[str, Step] = {}
    for step in plan.steps:
        found[step.id] = _retarget_step(step, stack, found)
    return plan.model_copy(update={"steps": tuple(found.values())})


def _retarget_step(step: "Step", stack: Mapping[str, str], before: "Mapping[str, Step]") -> "Step":
    values, parts = dict(step.key_values), dict(step.key_parts)
    versions = planned_versions(step)
    if versions:
        values[_ENVIRONMENT] = {name: stack.get(name, version) for name, version in versions.items()}
    for role, source in step.inputs.items():
        values[f"input.{role}"] = source.key_value(before[source.step].key)
    changed = {name for name, value in values.items() if value != step.key_values.get(name)}
    parts.update({name: digest(values[name]) for name in changed})
    key = key_from_parts(parts) if changed else step.key
    return step.model_copy(update={"key_values": values, "key_parts": parts, "key": key})


def planned_versions(step: "Step") -> Mapping[str, str]:
    """The versions of the libraries in the key of a step; empty for a step in a container."""
    environment = cast(dict[str, Any], step.key_values.get(_ENVIRONMENT) or {})
    return {} if _IMAGE in environment else environment
