"""Tests the parts of other datasets that `join`, `mix` and steps with `against` read."""

import pytest

from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.pipeline import compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG

_STEPS = "    steps:\n      - split: {test: 100}\n"
_OTHER = "  other:\n    from: {arithmetic: {digits: 1, count: 50}}\n    steps:\n      - split: {test: 10}\n"


def part_diagnostics(step: str) -> list[tuple[str, str, str]]:
    """Return code, message and marked text of each diagnostic."""
    text = minimal_recipe((_STEPS, f"    steps:\n      - {step}\n      - split: {{test: 100}}\n{_OTHER}"))
    source = SourceFile("recipe.yaml", text.encode())
    outcome = compile_recipe(CompileRequest(source=source, catalog=CATALOG, read=lambda _: None))
    lines = text.split("\n")
    return [
        (d.code, d.message, lines[d.span.line - 1][d.span.column - 1 : d.span.end_column - 1])
        for d in outcome.diagnostics
    ]


@pytest.mark.parametrize(
    "step",
    [
        "mix: {other.%s: 0.5}",
        "decontaminate: {against: other.%s, columns: prompt}",
    ],
)
def test_a_part_that_is_not_there_is_told_where_it_is_named(step: str) -> None:
    assert part_diagnostics(step % "test") == []
    assert part_diagnostics(step % "tests") == [("PT0405", "`other` has no part `tests`", "other.tests")]


def test_a_join_with_a_part_that_is_not_there() -> None:
    step = "join: {with: other.%s, on: [prompt, completion, answer]}"
    assert part_diagnostics(step % "test") == []
    assert part_diagnostics(step % "dev") == [("PT0405", "`other` has no part `dev`", "other.dev")]
