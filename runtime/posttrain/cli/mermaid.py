"""A plan as a Mermaid flowchart: the steps with their states and estimates."""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from posttrain.cli.estimate_text import estimate_phrase
from posttrain.cli.text_tables import PENDING_STATES
from posttrain.runtime.execution.dry_run import StepForecast

if TYPE_CHECKING:
    from posttrain.spec.plan import Plan, Step


_STYLES = {
    "cached": "fill:#e6f4ea,stroke:#2e7d32,color:#1b3d1f",
    "resume": "fill:#e0f2f7,stroke:#00789c,color:#08303d",
    "run": "fill:#fff6db,stroke:#b07d00,color:#4a3500",
    "skipped": "fill:#f2f2f2,stroke:#9e9e9e,color:#6b6b6b,stroke-dasharray:4",
}
_STATE_TEXT = {"cached": "cached", "resume": "to resume", "run": "to run", "skipped": "skipped"}
_SHAPES = {"gate": ("{", "}"), "data": ("[(", ")]")}


def flowchart(plan: "Plan", prospects: Mapping[str, StepForecast]) -> str:
    """The text of the chart. Gates are diamonds; dotted lines lead to the steps that wait for them."""
    names = {step.id: f"s{number}" for number, step in enumerate(plan.steps)}
    boxes = [
        f"{names[step.id]}{_node(step, prospects[step.id])}:::{prospects[step.id].state}"
        for step in plan.steps
    ]
    edges = [edge for step in plan.steps for edge in _edges(step, names)]
    styles = [f"classDef {state} {style}" for state, style in _STYLES.items()]
    return "\n  ".join(["flowchart TD", *boxes, *edges, *styles]) + "\n"


def _node(step: "Step", prospect: StepForecast) -> str:
    opening, closing = _SHAPES.get(step.kind, ("[", "]"))
    lines = [step.id, f"{step.kind}, {_STATE_TEXT[prospect.state]}"]
    if prospect.state in PENDING_STATES:
        lines += [text for text in (prospect.reason, estimate_phrase(step.estimate)) if text]
    return f'{opening}"{"<br/>".join(map(_escape, lines))}"{closing}'


def _edges(step: "Step", names: Mapping[str, str]) -> Iterator[str]:
    drawn: set[str] = set()
    for source in step.inputs.values():
        if source.reference not in drawn:
            drawn.add(source.reference)
            named = source.output or source.part
            part = f'|"{_escape(named)}"|' if named else ""
            yield f"{names[source.step]} -->{part} {names[step.id]}"
    for gate in step.gates:
        yield f"{names[gate]} -.-> {names[step.id]}"


def _escape(text: str) -> str:
    """Replace every character that Mermaid could interpret by its character code."""
    return re.sub(r"[^\w .,@=/:%+-]", lambda found: f"#{ord(found[0])};", " ".join(text.split()))
