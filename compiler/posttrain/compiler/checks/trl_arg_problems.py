"""Finds the problems of the arguments under `trl:`. Recipes without `trl:` do not import this module."""

from collections.abc import Iterator, Mapping
from typing import Any

from posttrain.compiler.checks.reserved_trl_args import recipe_equivalent
from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.checks.trl_arg_values import Problem, value_problems
from posttrain.compiler.checks.trl_nested_args import find_nested_problems
from posttrain.compiler.facts.fact_tables import load_table
from posttrain.compiler.text.yaml_tree import KeyPath, Node, node_at
from posttrain.spec.suggestions import hint

_NOT_TEXT = "write the mapping itself: text and files are not checked"


def find_problems(
    trained_model: TrainedModel, kind: str, known: Mapping[str, Any], root: Node
) -> Iterator[Problem]:
    """Yield the problems of a stage's arguments. `known` are the arguments of the configuration class."""
    for name, value in trained_model.stage.trl.items():
        path = (*trained_model.path, "trl", name)
        owner = recipe_equivalent(name, kind)
        if owner is not None:
            message = f"`{name}` cannot be set under `trl`"
            yield Problem(kind="reserved", path=path, message=message, help=owner)
        elif name not in known:
            yield _unknown_argument(name, kind, known, path)
        else:
            yield from _check_value(trained_model, name, value, known[name], path, root)


def _unknown_argument(name: str, kind: str, known: Mapping[str, Any], path: KeyPath) -> Problem:
    release = load_table("trl")["release"]["trl"]
    help, meant = hint(name, known, what="arguments")
    owner = recipe_equivalent(meant, kind) if meant else None
    if owner is not None:
        help, meant = f"{help} {owner}", None
    message = f"`{kind}` of TRL {release} has no argument `{name}`"
    return Problem(kind="unknown", path=path, message=message, help=help, replace=meant)


def _check_value(
    trained_model: TrainedModel, name: str, value: Any, entry: Mapping[str, Any], path: KeyPath, root: Node
) -> Iterator[Problem]:
    """Check a value and its nested keys. TRL also takes a mapping as text, or the name of a file with a
    mapping. Both are rejected: their keys would not be checked, and the file is not part of the step's
    key."""
    if "mapping" in entry["type"] and isinstance(value, str):
        kinds = [kind for kind in entry["type"] if kind != "text"]
        entry = {"type": kinds, "doc": _NOT_TEXT}
    wrong = list(value_problems(name, value, entry, path, node_at(root, path)[0]))
    yield from wrong
    if not wrong and isinstance(value, dict | str):
        yield from find_nested_problems(trained_model, name, value, path, root)
