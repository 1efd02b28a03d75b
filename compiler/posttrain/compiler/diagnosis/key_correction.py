"""What a mistaken piece of a recipe was probably meant to be, so that the rest of it is checked too.

A key that is reported is taken for the one that was meant, or left out; a value of no consequence to
others is left out. Nothing mended this way is ever run: what was reported is an error.
"""

from collections.abc import Sequence

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.key_suggestions import suggest_key
from posttrain.compiler.text.yaml_tree import KeyPath, Node, rename_key
from posttrain.spec.validation import FieldError

# Fields whose absence changes nothing that another check looks at.
_INDEPENDENT_FIELDS = ("retry", "timeout_minutes", "on_failure", "description", "tracking", "seed", "trl")


def correct_keys(unknown: Sequence[FieldError], node: Node, path: KeyPath, diagnostics: Diagnostics) -> Node:
    """The piece with each unknown key under the name that was meant, or without it; the tree too."""
    for problem in unknown:
        meant = suggest_key(str(problem.path[-1]), problem.legal)
        node = rename_key(node, problem.path, meant)
        diagnostics.set_root(rename_key(diagnostics.root, (*path, *problem.path), meant))
    return node


def drop_independent_fields(problems: Sequence[FieldError], node: Node) -> Node | None:
    """The piece without its mistaken fields, if those are such that nothing else goes by them."""
    fields = {problem.path[0] for problem in problems if problem.path}
    if not fields or not fields <= set(_INDEPENDENT_FIELDS):
        return None
    for name in fields:
        node = rename_key(node, (name,), None)
    return node
