"""Merges the plans of a matrix's legs: steps that several legs share run once."""

from collections.abc import Hashable, Mapping, Sequence

from posttrain.compiler.parsing.matrix import Leg
from posttrain.spec.plan import Plan, Step
from posttrain.spec.record import record


@record
class _LegStep:
    """A step of one leg."""

    leg: int
    step: Step
    # Distinguishes it from the same step of other legs.
    identity: Hashable


def merge_legs(legs: Sequence[Leg], plans: Sequence[Plan]) -> Plan:
    """Merge the plans of all legs. The id of a step that differs between legs contains its matrix values."""
    if len(plans) == 1:
        return plans[0]
    # Merged ids, by leg and id within the leg.
    ids: list[dict[str, str]] = [{} for _ in plans]
    merged: dict[str, Step] = {}
    steps = [{step.id: step for step in plan.steps} for plan in plans]
    for name in dict.fromkeys(id for leg in steps for id in leg):
        places = [
            _LegStep(number, leg[name], (leg[name].key, tuple(ids[number][gate] for gate in leg[name].gates)))
            for number, leg in enumerate(steps)
            if name in leg
        ]
        names = _distinguishing_axes(legs, places)
        for place in places:
            suffix = ",".join(f"{n}={legs[place.leg].values[n].text}" for n in names)
            id = f"{name}@{suffix}" if suffix else name
            ids[place.leg][name] = id
            merged.setdefault(id, _with_merged_ids(place.step, id, suffix, ids[place.leg]))
    return plans[0].model_copy(update={"steps": tuple(merged.values())})


def _distinguishing_axes(legs: Sequence[Leg], places: Sequence[_LegStep]) -> list[str]:
    """The fewest names of the matrix that distinguish the steps; later names are dropped first."""
    names = list(legs[0].values)
    for name in reversed(list(names)):
        rest = [other for other in names if other != name]
        if _distinguishes(legs, places, rest):
            names = rest
    return names


def _distinguishes(legs: Sequence[Leg], places: Sequence[_LegStep], names: Sequence[str]) -> bool:
    seen: dict[tuple[object, ...], Hashable] = {}
    for place in places:
        values = tuple(legs[place.leg].values[name].text for name in names)
        if seen.setdefault(values, place.identity) != place.identity:
            return False
    return True


def _with_merged_ids(step: Step, id: str, leg: str, ids: Mapping[str, str]) -> Step:
    inputs = {role: given.model_copy(update={"step": ids[given.step]}) for role, given in step.inputs.items()}
    gates = tuple(ids[gate] for gate in step.gates)
    return step.model_copy(update={"id": id, "leg": leg, "inputs": inputs, "gates": gates})
