"""Compares the text of two recipes after `extends`, profiles and --set, but before interpolation."""

from typing import Any

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diff.value_diff import Difference, value_differences
from posttrain.compiler.parsing.expand import expand
from posttrain.compiler.parsing.parse import parse
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.compiler.text.yaml_tree import node_to_builtins


def expanded_recipe(request: CompileRequest) -> Any:
    """The expanded recipe as plain values."""
    diagnostics = Diagnostics()
    tree = parse(request.source, diagnostics)
    return None if tree is None else node_to_builtins(expand(tree, request, diagnostics))


def recipe_differences(before: CompileRequest, after: CompileRequest) -> list[Difference]:
    return list(value_differences(expanded_recipe(before), expanded_recipe(after)))
