"""Compares two steps, and maps the differences to paths in the recipe."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from posttrain.compiler.diff.value_diff import ABSENT, Difference, Path, value_differences
from posttrain.spec.plan import Step, StepInput

# The recipe keys of step parameters with a different name.
_RECIPE_KEYS: Mapping[str, Mapping[str, Path]] = {
    "data": {"source": ("from",), "operations": ("steps",)},
    "train": {"method": ("train",)},
    "gate": {"conditions": ("gate",)},
    "script": {"command": ("script",)},
}
# Parameters that the compiler derives.
_DERIVED_PARAMS = frozenset({"seed", "columns", "access"})
_STEP_SETTINGS = ("attempts", "wait_seconds", "timeout_minutes", "on_failure", "image")


def step_differences(
    before: Step, after: Step, seeds: tuple[int, int], same: Callable[[StepInput, StepInput], bool]
) -> list[Difference]:
    """The differences of the step itself. `same` decides whether two inputs are counterparts.

    `seeds` are the seeds of the plans; a step's seed is derived from it and the step's name.
    """
    found = [
        *_param_differences(before, after),
        *_version_differences(before, after),
        *_file_differences(before, after),
        *_input_differences(before, after, same),
        *_setting_differences(before, after),
    ]
    if seeds[0] != seeds[1] and "seed" in after.params:
        found.append(Difference(("seed",), *seeds))
    # Derived parameters follow from the recipe; they are reported only if nothing else differs.
    return [difference for difference in found if not _is_derived(difference, after)] or found


def recipe_path(step: Step) -> Path:
    """The path of a step's declaration in the recipe."""
    name = step.id.partition("@")[0]
    return tuple(name.split(".", 1)) if step.kind in ("model", "data") else ("stages", name)


def _param_differences(before: Step, after: Step) -> Iterator[Difference]:
    names = _RECIPE_KEYS.get(after.kind, {})
    for difference in value_differences(before.params, after.params):
        first, *rest = map(str, difference.path or ("params",))  # of a foreign plan: not a mapping
        # Report the difference of a lowered data step at the step itself.
        inner = rest[:1] if first == "operations" else rest
        path = (*recipe_path(after), *names.get(first, (first,)), *inner)
        yield Difference(path, difference.old, difference.new)


def _is_derived(difference: Difference, step: Step) -> bool:
    place = recipe_path(step)
    inner = difference.path[len(place) :] if difference.path[: len(place)] == place else ()
    return bool(inner) and inner[0] in _DERIVED_PARAMS


def _version_differences(before: Step, after: Step) -> Iterator[Difference]:
    """The differences in the versions of libraries and extensions."""
    for name, word in (("environment", "stack"), ("extensions", "version")):
        old, new = before.key_values.get(name, {}), after.key_values.get(name, {})
        for difference in value_differences(old, new):
            if difference.path != ("image",):
                yield Difference((word, *difference.path), difference.old, difference.new)


def _file_differences(before: Step, after: Step) -> Iterator[Difference]:
    for role in sorted({*before.files, *after.files}):
        old, new = before.files.get(role), after.files.get(role)
        was, now = (old.sha256 if old else ABSENT), (new.sha256 if new else ABSENT)
        if was != now:
            file = new or old
            assert file is not None, "the role is in one of the steps"
            yield Difference(("file", file.path), was, now)


def _input_differences(
    before: Step, after: Step, same: Callable[[StepInput, StepInput], bool]
) -> Iterator[Difference]:
    for role in sorted({*before.inputs, *after.inputs}):
        old, new = before.inputs.get(role), after.inputs.get(role)
        if old is None or new is None or not same(old, new):
            name = role.partition(":")[2] or ("from" if role == "rows" else role)
            yield Difference((*recipe_path(after), name), _input_name(old), _input_name(new))


def _input_name(source: StepInput | None) -> Any:
    if source is None:
        return ABSENT
    return source.reference.removeprefix("models.").removeprefix("datasets.")


def _setting_differences(before: Step, after: Step) -> Iterator[Difference]:
    for name in _STEP_SETTINGS:
        yield from value_differences(getattr(before, name), getattr(after, name), (*recipe_path(after), name))
    if before.gates != after.gates:
        yield Difference((*recipe_path(after), "gates"), list(before.gates), list(after.gates))
