"""Checks the branches of gates: the stages that run only after a failed or an inconclusive gate."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.diagnostic import Code
from posttrain.spec.eval_stages import Branch, Gate
from posttrain.spec.recipe import AnyStage
from posttrain.spec.step_params.eval_params import BranchStages
from posttrain.spec.suggestions import hint

_BRANCHED = (
    "  check: {eval: sft, data: sums.test, reward: right, metrics: {score: {mean: returns}}}\n",
    (
        "  check: {eval: sft, data: sums.test, reward: right, metrics: {accuracy: returns}}\n"
        "  ship: {gate: [{metric: check.accuracy, at_least: 0.8}], on_fail: {run: more}}\n"
        "  more: {train: sft, model: sft, data: sums.train, params: {epochs: 1, batch_size: 4}}\n"
    ),
)
BAD_BRANCH = Code(
    "PT0706",
    "invalid branch of a gate",
    "error",
    "`run: STAGE` names a stage that comes after its gate and that no other gate runs. In this case only"
    " that stage and the stages that depend on it run; the other stages after the gate do not run.",
    wrong=minimal_recipe(_BRANCHED, ("{run: more}", "{run: mroe}")),
    right=minimal_recipe(_BRANCHED),
)
CODES = (BAD_BRANCH,)

ActionT = TypeVar("ActionT", bound=str)

BRANCH_CASES = ("on_fail", "on_inconclusive")


def check_branches(resolved: ResolvedRecipe, diagnostics: Diagnostics) -> None:
    stages = resolved.recipe.stages
    owners: dict[str, str] = {}
    for name, stage in stages.items():
        for case in BRANCH_CASES if isinstance(stage, Gate) else ():
            rule = getattr(stage, case)
            if isinstance(rule, Branch):
                _check_branch(name, rule.run, ("stages", name, case, "run"), owners, resolved, diagnostics)


def _check_branch(
    gate: str,
    target: str,
    path: KeyPath,
    owners: dict[str, str],
    resolved: ResolvedRecipe,
    diagnostics: Diagnostics,
) -> None:
    order = list(resolved.recipe.stages)
    if target in resolved.recipe.invalid_names:
        return
    if target not in order:
        help, meant = hint(target, order[order.index(gate) + 1 :], what="stages after the gate")
        labels = diagnostics.removal_labels(target, "stages")
        message = f"there is no stage `{target}`"
        diagnostics.add(BAD_BRANCH, path, message, help=help, labels=labels, replace=meant)
    elif order.index(target) <= order.index(gate):
        diagnostics.add(BAD_BRANCH, path, f"`{target}` does not come after `{gate}`")
    elif owners.setdefault(target, gate) != gate:
        diagnostics.add(BAD_BRANCH, path, f"the gate `{owners[target]}` already runs `{target}`")


def lower_branch(rule: ActionT | Branch, resolved: ResolvedRecipe) -> ActionT | BranchStages:
    """Return the entry of a case in the plan: a word, or the stages that run."""
    return BranchStages(run=tuple(_branch_stages(rule.run, resolved))) if isinstance(rule, Branch) else rule


def _branch_stages(first: str, resolved: ResolvedRecipe) -> Sequence[str]:
    """Return a stage, all stages that depend on it, and the stages that their gates run."""
    stages, reads = resolved.recipe.stages, _stage_inputs(resolved)
    found = {first}
    count = 0
    while len(found) > count:
        count = len(found)
        found |= {name for name in stages if found & reads[name]}
        found |= {target for name in found for target in _branch_targets(stages[name])}
    return [name for name in stages if name in found]


def _stage_inputs(resolved: ResolvedRecipe) -> dict[str, set[str]]:
    """Return the stages that each stage reads, directly or through datasets."""
    stages = resolved.recipe.stages
    found = {name: _input_stages(f"stage:{name}", resolved) for name in stages}
    for name, stage in stages.items():
        for condition in stage.gate if isinstance(stage, Gate) else ():
            for metric in (condition.metric, condition.better_than or ""):
                found[name].add(metric.partition(".")[0])
    return found


def _input_stages(owner: str, resolved: ResolvedRecipe) -> set[str]:
    found: set[str] = set()
    ahead = list(resolved.by_owner.get(owner, {}).values())
    while ahead:
        ref = ahead.pop()
        if ref.kind == "stage":
            found.add(ref.name)
        elif ref.kind == "dataset":
            ahead += resolved.by_owner.get(ref.node, {}).values()
    return found


def _branch_targets(stage: AnyStage) -> set[str]:
    """Return the stages that a gate runs in one of its cases."""
    rules = [getattr(stage, case) for case in BRANCH_CASES] if isinstance(stage, Gate) else []
    return {rule.run for rule in rules if isinstance(rule, Branch)}


def gates_before(resolved: ResolvedRecipe) -> dict[str, tuple[str, ...]]:
    """Return the gates that each stage depends on: the last gate before it, with the gates before that one.

    A stage of a branch depends on the gate of the branch, on the gates before that gate, and on the gates
    inside the branch. A stage outside a branch does not depend on the gates inside it. No stage depends on a
    gate that needs it, such as one that a profile adds at the end.
    """
    stages = resolved.recipe.stages
    owner = {
        member: gate
        for gate, stage in stages.items()
        for target in _branch_targets(stage) & stages.keys()
        for member in _branch_stages(target, resolved)
    }
    result: dict[str, tuple[str, ...]] = {}
    reads = _stage_inputs(resolved)
    passed: dict[str, set[str]] = {}  # the gates, with the stages that each needs
    for name, stage in stages.items():
        gate = owner.get(name)
        free = [other for other, needed in passed.items() if name not in needed]
        same_branch = [other for other in free if owner.get(other) == gate][-1:]
        above = () if gate is None else (*result.get(gate, ()), gate)
        result[name] = tuple(dict.fromkeys((*above, *same_branch)))
        if isinstance(stage, Gate):
            needed = [_needed_stages(name, reads), *(passed[other] for other in result[name])]
            passed[name] = set[str]().union(*needed)
    return result


def _needed_stages(name: str, reads: Mapping[str, set[str]]) -> set[str]:
    """Return all stages that a stage depends on through what it reads."""
    found: set[str] = set()
    ahead = [name]
    while ahead:
        new = reads.get(ahead.pop(), set[str]()) - found
        found |= new
        ahead += new
    return found
