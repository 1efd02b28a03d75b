"""Decides whether a finished gate lets its dependent steps run."""

from typing import TYPE_CHECKING

from posttrain.runtime.plan_params import read_step_params
from posttrain.runtime.store.products import Product
from posttrain.spec.step_params.eval_params import BranchStages, GateStepParams

if TYPE_CHECKING:
    from posttrain.spec.plan import Step


def is_gate_open(gate: "Step", product: Product, step: "Step | None" = None) -> bool:
    """Apply the gate's `on_fail` and `on_inconclusive` to its verdict.

    A step of a branch runs only when its branch is taken. Any other step is held back when a branch is
    taken.
    """
    rule = _gate_action(gate, product)
    if step is not None and is_branch_step(gate, step):
        return isinstance(rule, BranchStages) and _stage_name(step) in rule.run
    return rule in ("pass", "warn")


def closed_gate_state(gate: "Step", product: Product, step: "Step") -> tuple[str, str]:
    """The state of a step behind a closed gate, and the reason."""
    words = {"pass": "passed", "fail": "failed"}.get(product.facts["verdict"], "was inconclusive")
    if is_branch_step(gate, step):
        return "skipped", f"the gate {gate.id} {words}, and this step belongs to another branch"
    return "held", f"the gate {gate.id} {words}"


def is_branch_step(gate: "Step", step: "Step") -> bool:
    """Whether the step belongs to a branch of this gate."""
    params = _gate_params(gate)
    rules = (params.on_fail, params.on_inconclusive)
    return any(isinstance(rule, BranchStages) and _stage_name(step) in rule.run for rule in rules)


def _gate_action(gate: "Step", product: Product) -> str | BranchStages:
    verdict, params = product.facts["verdict"], _gate_params(gate)
    return {"pass": "pass", "fail": params.on_fail, "inconclusive": params.on_inconclusive}[verdict]


def _gate_params(gate: "Step") -> GateStepParams:
    params = read_step_params(gate)
    assert isinstance(params, GateStepParams), f"{gate.id} is a gate"
    return params


def _stage_name(step: "Step") -> str:
    """The name of the stage in the recipe: the step id without the values of the matrix leg."""
    return step.id.partition("@")[0]
