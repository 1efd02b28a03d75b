"""Decides which steps run first: the datasets that need no product of a stage.

They need no GPU. Once they are built, every stage whose rows are counted is checked against its schedule, so
that no training starts before a later stage is known to have enough rows.
"""

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any

from posttrain.runtime.execution.step_progress import TERMINAL_STATES, StepProgress
from posttrain.runtime.preflight.schedules import check_schedule, data_inputs

if TYPE_CHECKING:
    from posttrain.runtime.preflight.finding import Finding
    from posttrain.spec.plan import Plan, Step

_DECLARED_KINDS = ("model", "data")


def independent_steps(plan: "Plan") -> frozenset[str]:
    """The datasets that need no product of a stage, and the models and datasets that they read."""
    steps = {step.id: step for step in plan.steps}
    # Of each step: the declared steps that it needs; None if it needs a stage. The plan is topological.
    needs: dict[str, frozenset[str] | None] = {}
    for step in plan.steps:
        inputs = [needs[source.step] for source in step.inputs.values()]
        declared = step.kind in _DECLARED_KINDS and None not in inputs
        needs[step.id] = frozenset({step.id}).union(*(one or () for one in inputs)) if declared else None
    return frozenset(id for name, ids in needs.items() if ids and steps[name].kind == "data" for id in ids)


class DataFirst:
    """The order of datasets and stages in one run, and the schedules that are checked already."""

    def __init__(self, plan: "Plan", steps: Mapping[str, StepProgress]) -> None:
        self._steps = steps
        self._first = independent_steps(plan)
        self._stages = [step for step in plan.steps if data_inputs(step)]
        # By stage: the steps whose rows it was checked against.
        self._checked: dict[str, frozenset[str]] = {}
        # Whether all independent datasets are built, as of the last check.
        self._is_released = False

    def may_start(self, step: "Step") -> bool:
        """Whether a step whose inputs are ready may start: a declared one always, a stage when checked."""
        if step.kind in _DECLARED_KINDS:
            return True
        return self._is_released and self._checked.get(step.id, frozenset()) == frozenset(self._facts(step))

    def wrong_schedules(self, cached: Container[str]) -> "list[Finding]":
        """The first finding of each waiting stage whose rows are counted since the last call.

        There are none until all independent datasets are built, so that they are reported together.
        """
        self._is_released = all(self._steps[id].state in TERMINAL_STATES for id in self._first)
        found: list[Finding] = []
        for step in self._stages if self._is_released else ():
            if self._steps[step.id].state != "waiting" or step.id in cached:
                continue
            facts = self._facts(step)
            if self._checked.get(step.id) != frozenset(facts):
                self._checked[step.id] = frozenset(facts)
                found += list(check_schedule(step, facts))[:1]
        return found

    def _facts(self, step: "Step") -> dict[str, Mapping[str, Any]]:
        """The facts of the finished products whose rows a stage reads, by step."""
        products = {given.step: self._steps[given.step].product for given in data_inputs(step).values()}
        return {id: product.facts for id, product in products.items() if product is not None}
