"""Where two recipes are written differently: after what they extend, profiles and --set, before variables."""

from typing import Any

from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.differences.values import Difference, value_differences
from posttrain.compiler.reading.expand import expand
from posttrain.compiler.reading.parse import parse
from posttrain.compiler.text.source import Request
from posttrain.compiler.text.tree import plain


def written(request: Request) -> Any:
    """The whole recipe as plain values."""
    findings = Findings()
    tree = parse(request.source, findings)
    return None if tree is None else plain(expand(tree, request, findings))


def recipe_differences(before: Request, after: Request) -> list[Difference]:
    return list(value_differences(written(before), written(after)))
