"""The origin of rows: the sources that they come from, and the datasets and parts that they pass through.

Two references share rows if they come from one source and no split separates them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from posttrain.compiler.resolution.name_resolution import Ref, ResolvedRecipe
from posttrain.spec.artifact_stages import Generate
from posttrain.spec.keys import digest
from posttrain.spec.record import record

# Steps that keep a subset of the rows: two subsets may have no common row.
_SUBSET_STEPS = frozenset({"where", "join"})


@record
class Passage:
    """A dataset or a generate stage that rows pass through, and the part that they are in."""

    node: str
    part: str | None
    steps: frozenset[str] = frozenset()


@record
class RowOrigin:
    """One way of rows from a source to a reference. `name` is the first dataset."""

    source: str
    name: str
    passages: tuple[Passage, ...] = ()


def row_origins(ref: Ref, resolved: ResolvedRecipe) -> tuple[RowOrigin, ...]:
    """The origins of the rows that a reference names. Rows of scripts have none."""
    if ref.kind == "stage":
        below = resolved.refs.get((ref.node, "data"))
        if below is None or not isinstance(resolved.recipe.stages.get(ref.name), Generate):
            return ()
        return _through(row_origins(below, resolved), Passage(ref.node, None))
    dataset = resolved.recipe.datasets.get(ref.name)
    if dataset is None:
        return ()
    names = frozenset(name for step in dataset.steps for name in step)
    passage = Passage(ref.node, ref.part, names)
    given = dataset.from_
    found: list[RowOrigin] = []
    if isinstance(given, dict):
        found.append(RowOrigin(_source_digest(cast(dict[str, Any], given)), ref.name))
    for role, other in resolved.by_owner.get(ref.node, {}).items():
        if role == "from" or _is_mixed(role, dataset.steps):
            found += row_origins(other, resolved)
    return _through(found, passage)


def _through(origins: Sequence[RowOrigin], passage: Passage) -> tuple[RowOrigin, ...]:
    return tuple(RowOrigin(one.source, one.name, (*one.passages, passage)) for one in origins)


def _is_mixed(role: str, steps: Sequence[Mapping[str, Any]]) -> bool:
    index = role.partition(".")[0]
    return index.isdigit() and "mix" in steps[int(index)]


def _source_digest(given: Mapping[str, Any]) -> str:
    """The identity of a source: its parameters, except for the columns that are read."""
    kept = {
        name: {key: value for key, value in params.items() if key != "columns"}
        if isinstance(params, dict)
        else params
        for name, params in given.items()
    }
    return digest([repr(sorted(kept.items()))])


def shared_origin(left: Ref, right: Ref, resolved: ResolvedRecipe) -> str | None:
    """The dataset from which two references get the same rows, or None if they share none for certain."""
    for one in row_origins(left, resolved):
        for other in row_origins(right, resolved):
            if one.source == other.source and not _are_separate(one, other):
                return _last_common(one, other)
    return None


def _are_separate(one: RowOrigin, other: RowOrigin) -> bool:
    ours, theirs = ({passage.node: passage for passage in origin.passages} for origin in (one, other))
    for node in ours.keys() & theirs.keys():
        parts = (ours[node].part, theirs[node].part)
        if None not in parts and parts[0] != parts[1]:
            return True
    own = _steps_outside(ours, theirs), _steps_outside(theirs, ours)
    if any("decontaminate" in steps for steps in own):
        return True
    return all(steps & _SUBSET_STEPS for steps in own)


def _steps_outside(passages: Mapping[str, Passage], other: Mapping[str, Passage]) -> frozenset[str]:
    """The steps that only these rows pass through."""
    return frozenset(step for node, one in passages.items() if node not in other for step in one.steps)


def _last_common(one: RowOrigin, other: RowOrigin) -> str:
    theirs = {passage.node for passage in other.passages}
    common = [passage.node for passage in one.passages if passage.node in theirs]
    return common[-1].partition(":")[2] if common else one.name
