"""Warns about declarations and variables that nothing uses, often after a rename."""

from collections.abc import Iterator

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE, minimal_recipe
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.text.yaml_tree import MappingNode
from posttrain.spec.artifact_stages import Generate
from posttrain.spec.diagnostic import Code
from posttrain.spec.eval_stages import Evaluate
from posttrain.spec.train_stage import Train

UNUSED_DECLARATION = Code(
    "PT0304",
    "unused declaration",
    "warning",
    "No stage uses this declaration, directly or indirectly. The compiler checks it, but it is never run."
    " Declarations in files that the recipe extends are not reported.",
    wrong=minimal_recipe(("rewards:", "  spare: {from: {arithmetic: {digits: 2, count: 10}}}\nrewards:")),
    right=MINIMAL_RECIPE,
)
UNUSED_VARIABLE = Code(
    "PT0305",
    "unused variable",
    "warning",
    "Nothing refers to the variable as ${vars.NAME}, so its value has no effect.",
    wrong=minimal_recipe(("name: demo", "name: demo\nvars: {size: 64}")),
    right=minimal_recipe(
        ("name: demo", "name: demo\nvars: {size: 64}"), ("hidden_size: 64", 'hidden_size: "${vars.size}"')
    ),
)
CODES = (UNUSED_DECLARATION, UNUSED_VARIABLE)
_SECTIONS = (
    ("models", "model"),
    ("datasets", "dataset"),
    ("rewards", "reward"),
    ("environments", "environment"),
)


def check_unused(resolved: ResolvedRecipe, file: str, diagnostics: Diagnostics) -> None:
    """Report declarations in `file` that no stage needs. Skip the check if there are errors, which may
    hide uses."""
    if diagnostics.has_errors:
        return
    needed = _needed(resolved)
    for section, thing in _SECTIONS:
        for name in getattr(resolved.recipe, section):
            path = (section, name)
            if f"{thing}:{name}" not in needed and diagnostics.span(path, key=True).file == file:
                diagnostics.add(UNUSED_DECLARATION, path, f"nothing uses the {thing} `{name}`", key=True)


def check_unused_variables(root: MappingNode, used: set[str], file: str, diagnostics: Diagnostics) -> None:
    entry = root.entries.get("vars")
    if diagnostics.has_errors or entry is None or not isinstance(entry.node, MappingNode):
        return
    for name, declared in entry.node.entries.items():
        if f"vars.{name}" not in used and declared.key_span.file == file:
            diagnostics.add_at_span(UNUSED_VARIABLE, declared.key_span, f"nothing uses ${{vars.{name}}}")


def _needed(resolved: ResolvedRecipe) -> set[str]:
    """Return what the stages use, directly or indirectly."""
    needed = {*_rewards(resolved), *_environments(resolved)}
    made_from: dict[str, list[str]] = {}
    for (owner, _), ref in resolved.refs.items():
        made_from.setdefault(owner, []).append(ref.node)
    for node in reversed(resolved.order):
        if node.startswith("stage:") or node in needed:
            needed.update(made_from.get(node, ()))
    return needed


def _rewards(resolved: ResolvedRecipe) -> Iterator[str]:
    for stage in resolved.recipe.stages.values():
        if isinstance(stage, Train | Evaluate | Generate) and stage.reward is not None:
            yield f"reward:{stage.reward}"


def _environments(resolved: ResolvedRecipe) -> Iterator[str]:
    for stage in resolved.recipe.stages.values():
        if isinstance(stage, Train | Evaluate) and stage.environment is not None:
            yield f"environment:{stage.environment}"
