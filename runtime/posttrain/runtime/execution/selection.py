"""Selects the steps of a plan to run: `--only`, `--from`, `--until`, `--skip`.

The order follows from the inputs of steps and from the gates in front of them. Models and datasets are
selected with the stages that need them. A gate outside the selection still holds back its dependent steps;
a gate in `--skip` holds back nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from posttrain.runtime.execution.run_errors import SelectionError
from posttrain.spec.record import record
from posttrain.spec.suggestions import hint

if TYPE_CHECKING:
    from posttrain.spec.plan import Plan, Step

_DECLARED_KINDS = ("model", "data")


@record(kw_only=True)
class SelectionOptions:
    """The stage names of the options, as the user passed them."""

    only: Sequence[str] = ()
    from_stages: Sequence[str] = ()
    until_stages: Sequence[str] = ()
    skip: Sequence[str] = ()


@record(kw_only=True)
class Selection:
    """The steps to run, and those that the user excluded with `--skip`."""

    steps: frozenset[str]
    skipped: frozenset[str] = frozenset()


def select_steps(plan: "Plan", options: SelectionOptions) -> Selection:
    """The steps that the options select. Raises `SelectionError` for a name that the plan does not have."""
    needs = {step.id: step_dependencies(step) for step in plan.steps}
    skipped = _resolve_names(plan, options.skip)
    chosen = {step.id for step in plan.steps if step.kind not in _DECLARED_KINDS}
    if options.only:
        chosen = _resolve_names(plan, options.only)
    if options.from_stages:
        chosen &= _reachable(_resolve_names(plan, options.from_stages), _reverse_edges(needs))
    if options.until_stages:
        chosen &= _reachable(_resolve_names(plan, options.until_stages), needs)
    chosen -= skipped
    if not chosen:
        raise SelectionError("no stage to run: the options exclude every stage; drop one of them")
    return Selection(steps=frozenset(_with_declared(plan, chosen) - skipped), skipped=frozenset(skipped))


def _with_declared(plan: "Plan", chosen: set[str]) -> set[str]:
    """The chosen steps, plus the models and datasets that they need."""
    declared = {step.id for step in plan.steps if step.kind in _DECLARED_KINDS}
    return _reachable(chosen, {step.id: declared.intersection(_input_steps(step)) for step in plan.steps})


def check_selection(plan: "Plan", selection: Selection, has_product: "Callable[[Step], bool]") -> None:
    """Raise `SelectionError` when a selected step needs a product that is missing and not selected."""
    steps = {step.id: step for step in plan.steps}
    absent = {id for id, step in steps.items() if id not in selection.steps and not has_product(step)}
    for step in plan.steps if absent else ():
        if step.id not in selection.steps:
            continue
        for gate in effective_gates(step, steps, selection.skipped):
            if gate in absent:
                raise SelectionError(
                    f"`{step.id}` depends on the gate `{gate}`, which is not selected and has no verdict;"
                    f" select `{gate}` too, or ignore it with --skip {gate}"
                )
        for other in () if has_product(step) else _input_steps(step):
            if other in absent:
                raise SelectionError(_missing_input_message(step, other, selection))


def _missing_input_message(step: "Step", other: str, selection: Selection) -> str:
    what = f"`{step.id}` reads `{other}`, which is not selected and has no product in the store"
    if other in selection.skipped:
        return f"{what}; remove --skip {other}, or skip `{step.id}` too"
    return f"{what}; run `{other}` first, or select it too"


def effective_gates(step: "Step", steps: "Mapping[str, Step]", skipped: Iterable[str]) -> list[str]:
    """The gates of a step; a skipped gate is replaced by its own gates."""
    found: list[str] = []
    for gate in step.gates:
        found += effective_gates(steps[gate], steps, skipped) if gate in skipped else [gate]
    return found


def step_dependencies(step: "Step") -> tuple[str, ...]:
    """The gates and inputs that must finish before a step can start."""
    return (*step.gates, *_input_steps(step))


def _input_steps(step: "Step") -> tuple[str, ...]:
    return tuple(source.step for source in step.inputs.values())


def _resolve_names(plan: "Plan", names: Iterable[str]) -> set[str]:
    """The ids of the named steps; the name of a stage matches the stage in every leg of a matrix."""
    ids = [step.id for step in plan.steps]
    found: set[str] = set()
    for name in names:
        matching = {id for id in ids if name in (id, id.partition("@")[0])}
        if not matching:
            raise SelectionError(f"the recipe has no stage `{name}`; {hint(name, ids, what='stages')[0]}")
        found |= matching
    return found


def _reachable(start: Iterable[str], edges: Mapping[str, Iterable[str]]) -> set[str]:
    """All nodes that are reachable from the start, including the start."""
    found: set[str] = set()
    pending = list(start)
    while pending:
        id = pending.pop()
        if id not in found:
            found.add(id)
            pending += edges.get(id, ())
    return found


def _reverse_edges(edges: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for id, others in edges.items():
        for other in others:
            found.setdefault(other, []).append(id)
    return found
