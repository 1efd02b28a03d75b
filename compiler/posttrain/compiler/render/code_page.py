"""The page of a diagnostic code."""

import textwrap

from posttrain.spec.diagnostic import Code


def render_code_page(code: Code, level: int = 1) -> str:
    """What `recipe explain` prints, as Markdown."""
    blocks = [
        f"{'#' * level} {code.id}: {code.title}",
        f"Severity: {code.severity}",
        textwrap.fill(code.page, 100),
        "Wrong:",
        _fenced_yaml(code.wrong),
        "Right:",
        _fenced_yaml(code.right),
    ]
    for path, text in code.files:
        blocks += [f"with `{path}` beside it:", _fenced_yaml(text)]
    return "\n\n".join(blocks) + "\n"


def _fenced_yaml(text: str) -> str:
    return f"```yaml\n{text.rstrip()}\n```"
