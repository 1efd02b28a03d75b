"""Corrects invalid parts of a recipe after reporting them, so that the rest is checked too.

An unknown key is renamed to the most likely legal key, or removed. An invalid value is removed if no other
check depends on it. A corrected recipe never runs, because the reported error stops the compilation.
"""

from collections.abc import Sequence

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.key_suggestions import suggest_key
from posttrain.compiler.text.yaml_tree import KeyPath, Node, rename_key
from posttrain.spec.validation import FieldError

# Fields that no other check depends on.
_INDEPENDENT_FIELDS = ("retry", "timeout_minutes", "on_failure", "description", "tracking", "seed", "trl")


def correct_keys(unknown: Sequence[FieldError], node: Node, path: KeyPath, diagnostics: Diagnostics) -> Node:
    """Rename or remove the unknown keys, in the node and in the tree of the diagnostics."""
    for problem in unknown:
        meant = suggest_key(str(problem.path[-1]), problem.legal)
        node = rename_key(node, problem.path, meant)
        diagnostics.set_root(rename_key(diagnostics.root, (*path, *problem.path), meant))
    return node


def drop_independent_fields(problems: Sequence[FieldError], node: Node) -> Node | None:
    """The node without its invalid fields, or None if another check depends on one of them."""
    fields = {problem.path[0] for problem in problems if problem.path}
    if not fields or not fields <= set(_INDEPENDENT_FIELDS):
        return None
    for name in fields:
        node = rename_key(node, (name,), None)
    return node
