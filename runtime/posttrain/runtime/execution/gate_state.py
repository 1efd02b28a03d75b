"""Whether a finished gate lets the steps behind it run."""

from typing import Any

from posttrain.runtime.store.products import Product
from posttrain.spec.plan import Step

_VERDICT_PARAMS = {"fail": "on_fail", "inconclusive": "on_inconclusive"}


def is_gate_open(gate: Step, product: Product, step: Step | None = None) -> bool:
    """The verdict, read with what the gate says about failures and about verdicts that are open.

    A step of a branch goes on in its own case alone, every other step in no case that has a branch.
    """
    rule = _gate_action(gate, product)
    if step is not None and is_branch_step(gate, step):
        return isinstance(rule, dict) and _stage_name(step) in rule["run"]
    return rule in ("pass", "warn")


def closed_gate_state(gate: Step, product: Product, step: Step) -> tuple[str, str]:
    """The state and the reason of a step that is not let through."""
    words = {"pass": "passed", "fail": "failed"}.get(product.facts["verdict"], "was inconclusive")
    if is_branch_step(gate, step):
        return "skipped", f"the gate {gate.id} {words}: this is for another case"
    return "held", f"the gate {gate.id} {words}"


def is_branch_step(gate: Step, step: Step) -> bool:
    """Whether the step is for one case of this gate alone."""
    rules = [gate.params[case] for case in _VERDICT_PARAMS.values()]
    return any(isinstance(rule, dict) and _stage_name(step) in rule["run"] for rule in rules)


def _gate_action(gate: Step, product: Product) -> Any:
    verdict = product.facts["verdict"]
    return "pass" if verdict == "pass" else gate.params[_VERDICT_PARAMS[verdict]]


def _stage_name(step: Step) -> str:
    """The stage as the recipe names it: the step of a leg has the leg's values behind that."""
    return step.id.partition("@")[0]
