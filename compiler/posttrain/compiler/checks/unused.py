"""Warns about declarations and variables that nothing uses, often after a rename."""

from collections.abc import Iterator, Mapping

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE, minimal_recipe
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.rewards.graph import RewardGraph
from posttrain.compiler.rewards.reward_codes import UNUSED_NODE
from posttrain.compiler.stages.eval_stage import CheckedEval
from posttrain.compiler.text.yaml_tree import MappingNode, node_at
from posttrain.spec.artifact_stages import Generate
from posttrain.spec.diagnostic import Code, Span
from posttrain.spec.eval_stages import Evaluate
from posttrain.spec.record import record
from posttrain.spec.suggestions import closest_match
from posttrain.spec.train_stage import Train

UNUSED_DECLARATION = Code(
    "PT0304",
    "unused declaration",
    "warning",
    "No stage uses this declaration, directly or indirectly. The compiler checks it, but it is never run."
    " Declarations in files that the recipe extends are not reported, and with a profile or --set only those"
    " that it adds.",
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


@record
class UnusedReport:
    """Which unused declarations are reported: those of the recipe's file. Profiles and --set options can
    leave them unused. With these, only what they add is reported: often a misspelled name."""

    file: str
    # The tree without profiles and --set options; None if there are none.
    base: MappingNode | None

    def includes(self, path: tuple[str, ...], span: Span) -> bool:
        if self.base is None:
            return span.file == self.file
        return node_at(self.base, path)[1] < len(path)

    def help(self, path: tuple[str, ...]) -> str:
        """The declared name that an added one most likely means."""
        known = node_at(self.base, path[:-1])[0] if self.base is not None else None
        meant = closest_match(path[-1], known.entries) if isinstance(known, MappingNode) else None
        return f"did you mean `{meant}`?" if meant else ""


def check_unused(resolved: ResolvedRecipe, report: UnusedReport, diagnostics: Diagnostics) -> None:
    """Report declarations that no stage needs. Skip the check if there are errors, which may hide uses."""
    if diagnostics.has_errors:
        return
    needed = _needed(resolved)
    for section, thing in _SECTIONS:
        for name in getattr(resolved.recipe, section):
            path = (section, name)
            if f"{thing}:{name}" not in needed and report.includes(path, diagnostics.span(path, key=True)):
                message = f"nothing uses the {thing} `{name}`"
                diagnostics.add(UNUSED_DECLARATION, path, message, key=True, help=report.help(path))


def check_unused_nodes(
    resolved: ResolvedRecipe,
    graphs: Mapping[str, RewardGraph],
    evals: Mapping[str, CheckedEval],
    report: UnusedReport,
    diagnostics: Diagnostics,
) -> None:
    """Report reward nodes that neither the reward nor a metric uses."""
    for name, graph in graphs.items():
        measured = {
            metric.node.partition(".")[0]
            for found in evals.values()
            if found.stage.reward == name
            for metric in found.metrics.values()
        }
        for node in resolved.recipe.rewards[name].nodes:
            path = ("rewards", name, "nodes", node)
            is_reported = report.base is None or report.includes(path, diagnostics.span(path, key=True))
            if node not in graph.used and node not in measured and is_reported:
                message = f"nothing uses `{node}`"
                diagnostics.add(UNUSED_NODE, path, message, key=True, help=report.help(path))


def check_unused_variables(
    root: MappingNode, used: set[str], report: UnusedReport, diagnostics: Diagnostics
) -> None:
    entry = root.entries.get("vars")
    if diagnostics.has_errors or entry is None or not isinstance(entry.node, MappingNode):
        return
    for name, declared in entry.node.entries.items():
        path, span = ("vars", name), declared.key_span
        if f"vars.{name}" not in used and report.includes(path, span):
            message = f"nothing uses ${{vars.{name}}}"
            diagnostics.add_at_span(UNUSED_VARIABLE, span, message, help=report.help(path))


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
