"""What `recipe diff` prints: the changes, the steps that they make anew, and what those cost."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import click

from posttrain.cli.estimates import cells, total
from posttrain.cli.tables import aligned
from posttrain.compiler.differences.parts import at
from posttrain.compiler.differences.plans import Comparison, StepChange
from posttrain.compiler.differences.values import ABSENT, Difference, dotted
from posttrain.compiler.differences.written import recipe_differences
from posttrain.compiler.text.source import Request
from posttrain.spec.plan import Step

# What is not in the text of a recipe, and yet goes into a product.
_OUTSIDE = ("file", "stack", "version")
_WIDE = 60


@dataclass(frozen=True, kw_only=True)
class Report:
    """A comparison, with what stands in the home."""

    changes: tuple[Difference, ...]
    anew: tuple[StepChange, ...]
    gone: tuple[Step, ...]
    kept: int
    cached: frozenset[str]

    @property
    def same(self) -> bool:
        return not (self.changes or self.anew or self.gone)

    @property
    def to_do(self) -> list[Step]:
        return [change.step for change in self.anew if change.step.id not in self.cached]

    @staticmethod
    def of(compared: Comparison, old: Request | None, new: Request | None, cached: Iterable[str]) -> "Report":
        anew = tuple(change for change in compared.steps if change.fate != "same")
        return Report(
            changes=tuple(_changes(compared, old, new)),
            anew=anew,
            gone=compared.gone,
            kept=len(compared.steps) - len(anew),
            cached=frozenset(cached),
        )


def _changes(compared: Comparison, old: Request | None, new: Request | None) -> list[Difference]:
    """What was changed, each once: by the recipes' own text where both sides have one."""
    found = [*compared.whole, *(difference for change in compared.steps for difference in change.own)]
    if old is not None and new is not None:
        outside = [difference for difference in found if difference.path[0] in _OUTSIDE]
        found = [*recipe_differences(old, new), *outside]
    unique = {(d.path, repr(d.old), repr(d.new)): d for d in found}
    return sorted(unique.values(), key=lambda d: [str(part) for part in d.path])


def shown(report: Report) -> str:
    if report.same:
        return "no difference\n"
    return "\n\n".join("\n".join(block) for block in _blocks(report) if block) + "\n"


def _blocks(report: Report) -> Iterator[list[str]]:
    if report.changes:
        yield [click.style("changed", bold=True), *(f"  {_line(change)}" for change in report.changes)]
    if report.anew:
        rows = [_row(change, change.step.id in report.cached) for change in report.anew]
        header = ("step", "kind", "state", "time", "memory", "cost", "why")
        used = [at for at in range(len(header)) if any(row[at] for row in rows)]
        yield aligned([header[at] for at in used], [[row[at] for at in used] for row in rows])
    if report.gone:
        yield ["no longer there: " + ", ".join(step.id for step in report.gone)]
    yield [_summary(report)]


def _row(change: StepChange, cached: bool) -> tuple[str, ...]:
    estimate = None if cached else change.step.estimate
    return (change.step.id, change.step.kind, "cached" if cached else "run", *cells(estimate), _why(change))


def _why(change: StepChange) -> str:
    if change.fate == "new":
        return "new"
    if change.fate == "downstream":
        return f"{' and '.join(change.through)} changed"
    own = dotted(at(change.step)) + "."
    names = list(dict.fromkeys(dotted(d.path).removeprefix(own) for d in change.own))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _summary(report: Report) -> str:
    if not report.anew:
        return "no step is made anew"
    count = len(report.anew)
    said = [f"{count} step{'s' if count != 1 else ''} made anew, {report.kept} untouched"]
    cached = count - len(report.to_do)
    said += [f"{cached} of them cached"] if cached else []
    cost = total(report.to_do)
    return ", ".join(said) + (f"; {cost}" if cost else "")


def _line(change: Difference) -> str:
    name = (
        f"{change.path[0]} {dotted(change.path[1:])}" if change.path[0] in _OUTSIDE else dotted(change.path)
    )
    if change.old is ABSENT:
        return f"+ {name}: {_cut(_text(change.new))}"
    if change.new is ABSENT:
        return f"- {name}: {_cut(_text(change.old))}"
    old, new = _text(change.old), _text(change.new)
    start = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), 0)
    return f"~ {name}: {_cut(old, start)} -> {_cut(new, start)}"


def _text(value: Any) -> str:
    text = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
    return " ".join(text.split())


def _cut(text: str, start: int = 0) -> str:
    """As much of a text as fits, from a little before the place that matters."""
    begin = max(0, start - 20) if len(text) > _WIDE else 0
    shown = text[begin : begin + _WIDE]
    return ("..." if begin else "") + shown + ("..." if begin + _WIDE < len(text) else "")


def to_json(report: Report) -> str:
    """The same for programs. A side that has nothing at a path has no key."""
    return (
        json.dumps(
            {
                "same": report.same,
                "changes": [_written(change) for change in report.changes],
                "steps": [_step(change, report) for change in report.anew],
                "gone": [step.id for step in report.gone],
                "untouched": report.kept,
                "cost": {name: _sum(report.to_do, name) for name in ("seconds", "dollars")},
            },
            ensure_ascii=False,
            indent=1,
        )
        + "\n"
    )


def _written(change: Difference) -> dict[str, Any]:
    sides = {"old": change.old, "new": change.new}
    return {"path": list(change.path), **{k: v for k, v in sides.items() if v is not ABSENT}}


def _step(change: StepChange, report: Report) -> dict[str, Any]:
    return {
        "id": change.step.id,
        "kind": change.step.kind,
        "why": change.fate,
        "own": [_written(difference) for difference in change.own],
        "through": list(change.through),
        "cached": change.step.id in report.cached,
        "estimate": change.step.estimate,
    }


def _sum(steps: Iterable[Step], name: str) -> float | None:
    """What is known of several steps together; None when nothing is."""
    known = [step.estimate[name] for step in steps if step.estimate and step.estimate.get(name) is not None]
    return sum(known) if known else None
