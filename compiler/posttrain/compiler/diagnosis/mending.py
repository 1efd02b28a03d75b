"""What a mistaken piece of a recipe was probably meant to be, so that the rest of it is checked too.

A key that is reported is taken for the one that was meant, or left out; a value of no consequence to
others is left out. Nothing mended this way is ever run: what was reported is an error.
"""

from collections.abc import Sequence

from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.diagnosis.synonyms import key_meant
from posttrain.compiler.text.tree import Node, Path, renamed
from posttrain.spec.reading import Problem

# Fields whose absence changes nothing that another check looks at.
_OF_NO_CONSEQUENCE = ("retry", "timeout_minutes", "on_failure", "description", "tracking", "seed", "trl")


def with_keys_meant(unknown: Sequence[Problem], node: Node, path: Path, findings: Findings) -> Node:
    """The piece with each unknown key under the name that was meant, or without it; the tree too."""
    for problem in unknown:
        meant = key_meant(str(problem.at[-1]), problem.legal)
        node = renamed(node, problem.at, meant)
        findings.attach(renamed(findings.root, (*path, *problem.at), meant))
    return node


def without_consequence(problems: Sequence[Problem], node: Node) -> Node | None:
    """The piece without its mistaken fields, if those are such that nothing else goes by them."""
    fields = {problem.at[0] for problem in problems if problem.at}
    if not fields or not fields <= set(_OF_NO_CONSEQUENCE):
        return None
    for name in fields:
        node = renamed(node, (name,), None)
    return node
