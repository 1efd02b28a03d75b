"""The places of what a stage uses, for messages of the runtime: declarations, and its own keys."""

from collections.abc import Iterator, Mapping
from typing import Any

from posttrain.compiler.semantic_checks import CheckedRecipe
from posttrain.compiler.text.yaml_tree import key_span, node_at
from posttrain.spec.plan import SourceLocation
from posttrain.spec.stage import Stage

Path = tuple[str, ...]
# The keys of a stage that its rows are checked against.
_ROW_KEYS = ("data", "few_shot", "params")


def source_location(checked: CheckedRecipe, path: Path) -> SourceLocation:
    span = key_span(checked.resolved.recipe.root, path)
    return SourceLocation(file=span.file, line=span.line, column=span.column)


def declaration_places(
    name: str, stage: Stage | None, params: Mapping[str, Any], checked: CheckedRecipe
) -> dict[str, SourceLocation]:
    """The places of the endpoints, the reward and the environment of a stage, and of its in-loop evals; and
    of the keys of the stage that name its data and its batch sizes."""
    if stage is None:
        return {}
    root = checked.resolved.recipe.root
    own = {key: ("stages", name, key) for key in _ROW_KEYS}
    places = {key: source_location(checked, path) for key, path in own.items() if node_at(root, path)[1] == 3}
    paths = list(_used_declarations(stage, params))
    during = params.get("evaluate") or {}
    for each, eval_params in during.get("evals", {}).items():
        paths += _used_declarations(checked.resolved.recipe.stages[each], eval_params)
    return places | {".".join(path): source_location(checked, path) for path in dict.fromkeys(paths)}


def _used_declarations(stage: Stage, params: Mapping[str, Any]) -> Iterator[Path]:
    endpoints = _endpoint_names(params)
    yield from (("endpoints", name) for name in endpoints)
    reward, environment = getattr(stage, "reward", None), getattr(stage, "environment", None)
    if isinstance(reward, str):
        yield ("rewards", reward)
        graph = params.get("reward") or {}
        # Other nodes of the graph name no code of the user.
        functions = (node["id"] for node in graph.get("nodes", ()) if node["op"] == "python")
        yield from (("rewards", reward, "nodes", id) for id in functions)
    if isinstance(environment, str):
        yield ("environments", environment)


def _endpoint_names(params: Mapping[str, Any]) -> list[str]:
    """The names of the endpoints among the parameters: of models, and of judges."""
    graph = params.get("reward") or {}
    models = [model["name"] for model in params.get("models", ()) if model.get("endpoint")]
    return [*models, *graph.get("endpoints", {})]
