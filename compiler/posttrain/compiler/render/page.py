"""The page of a diagnostic code."""

import textwrap

from posttrain.spec.diagnostic import Code


def page(code: Code, level: int = 1) -> str:
    """What `recipe explain` prints, as Markdown."""
    blocks = [
        f"{'#' * level} {code.id}: {code.title}",
        f"Severity: {code.severity}",
        textwrap.fill(code.page, 100),
        "Wrong:",
        _fenced(code.wrong),
        "Right:",
        _fenced(code.right),
    ]
    for path, text in code.beside:
        blocks += [f"with `{path}` beside it:", _fenced(text)]
    return "\n\n".join(blocks) + "\n"


def _fenced(text: str) -> str:
    return f"```yaml\n{text.rstrip()}\n```"
