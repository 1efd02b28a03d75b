"""Checks that rewards with `code_tests` use a sandbox that works in the container of the stage."""

from collections.abc import Iterator, Mapping
from typing import Any

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.rewards.graph import RewardGraph
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.artifact_stages import Generate
from posttrain.spec.diagnostic import Code
from posttrain.spec.eval_stages import Evaluate
from posttrain.spec.recipe import AnyStage
from posttrain.spec.train_stage import Train

_IMAGE = f"registry.example/posttrain-cpu@sha256:{'6d4c7a3f0e1b2958' * 4}"
_NODE = "{code_tests: {of: completion, tests: {text: '[]'}%s}}"


def _example(more: str) -> str:
    right = "returns: {score: {when: {math_equal: {of: completion, to: answer}}, then: 1.0}}"
    container = ("datasets:", f"container: {{image: '{_IMAGE}'}}\ndatasets:")
    return minimal_recipe(container, (right, f"returns: {_NODE % more}"), ("text, answer: text", "text"))


NO_SANDBOX = Code(
    "PT0903",
    "sandbox not available in a container",
    "error",
    "By default `code_tests` runs programs in Linux namespaces. An unprivileged container cannot create"
    " namespaces, so the stage would fail at its first program. Set `sandbox: landlock` for stages in a"
    " container; docs/sandbox.md describes what it protects against. Or run this stage without a container:"
    " `container` can be set per stage.",
    wrong=_example(""),
    right=_example(", sandbox: landlock"),
)
CODES = (NO_SANDBOX,)


def check_sandboxes(
    resolved: ResolvedRecipe, graphs: Mapping[str, RewardGraph], diagnostics: Diagnostics
) -> None:
    """Report rewards whose programs would have no sandbox, once per node."""
    reported: set[tuple[str, str]] = set()
    for stage, reward in _container_rewards(resolved):
        for node in _code_test_nodes(graphs.get(reward)):
            if (reward, node["id"]) not in reported:
                reported.add((reward, node["id"]))
                _report(stage, reward, str(node["id"]).partition(".")[0], resolved, diagnostics)


def _report(stage: str, reward: str, node: str, resolved: ResolvedRecipe, diagnostics: Diagnostics) -> None:
    path: KeyPath = ("rewards", reward, "nodes", node)
    if node not in resolved.recipe.rewards[reward].nodes:
        path = ("rewards", reward, "returns")
    message = f"the stage `{stage}` uses this in a container, where namespaces are not available"
    diagnostics.add(NO_SANDBOX, path, message, help="add `sandbox: landlock` to `code_tests`")


def _code_test_nodes(graph: RewardGraph | None) -> Iterator[Mapping[str, Any]]:
    for node in graph.nodes if graph is not None else ():
        if node["op"] == "code_tests" and node["params"]["sandbox"] == "namespaces":
            yield node


def _container_rewards(resolved: ResolvedRecipe) -> Iterator[tuple[str, str]]:
    """Yield the stages that run in a container, with each reward that they use."""
    stages = resolved.recipe.stages
    for name, stage in stages.items():
        if (stage.container or resolved.recipe.container) is None:
            continue
        during = stage.evaluate.evals if isinstance(stage, Train) and stage.evaluate is not None else ()
        for one in (stage, *(stages[each] for each in during if each in stages)):
            reward = _stage_reward(one)
            if reward is not None:
                yield name, reward


def _stage_reward(stage: AnyStage) -> str | None:
    return stage.reward if isinstance(stage, Train | Evaluate | Generate) else None
