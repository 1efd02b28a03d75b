"""Mutated recipes always compile to a plan or diagnostics, never to a traceback."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain.compiler.pipeline import CompileResult, compile_recipe
from posttrain.compiler.render.text_diagnostics import Styler, render_text
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG
from posttrain.spec.diagnostic import has_errors

ROOT = Path(__file__).parent.parent.parent
SHIPPED = [path.read_text() for path in sorted(ROOT.glob("recipes/**/recipe.yaml"))]
SHIPPED += [path.read_text() for path in sorted((ROOT / "tests" / "compiler" / "cases").glob("valid-*.yaml"))]
# Fragments that have crashed parsers.
PIECES = [
    "",
    " ",
    "\n",
    "\t",
    ":",
    "- ",
    "{",
    "}",
    "[",
    "]",
    "&a ",
    "*a",
    "!!int ",
    "|",
    ">",
    "#",
    "'",
    '"',
    "%",
    "@",
    "`",
    "null",
    "~",
    "yes",
    "1e400",
    "-.inf",
    ".nan",
    "0x",
    "9" * 60,
    "1_000",
    "2024-01-01",
    "\u00e9",
    "\u202e",
    "\U0001f600",
    "${vars.x}",
    "${",
    "$${",
    "${matrix.a}",
    "<<: ",
    "? ",
    "---\n",
    "...\n",
    "extends: ../x\n",
    "stages: 3\n",
    "matrix: {a: [1, 2]}\n",
    "- split: {test: 0.5}\n",
    "{sum: []}",
    "{score: {when: {score: 1}}}",
    "select: []",
]


def compiled(data: bytes) -> CompileResult:
    request = CompileRequest(source=SourceFile("recipe.yaml", data), catalog=CATALOG, read=lambda _: None)
    return compile_recipe(request)


def check(data: bytes) -> None:
    outcome = compiled(data)
    assert (outcome.plan is None) == has_errors(outcome.diagnostics)
    lines = data.decode("utf-8", "replace").splitlines()
    for diagnostic in outcome.diagnostics:
        assert diagnostic.message
        assert diagnostic.span.line >= 1
        assert diagnostic.span.column >= 1
    assert (
        render_text(outcome.diagnostics, {"recipe.yaml": lines}, {}, Styler(colour=True))
        or not outcome.diagnostics
    )


@st.composite
def mutated(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(SHIPPED))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 30)))
        match draw(st.sampled_from(("replace", "delete", "repeat", "move"))):
            case "replace":
                text = text[:start] + draw(st.sampled_from(PIECES)) + text[end:]
            case "delete":
                text = text[:start] + text[end:]
            case "repeat":
                text = text[:end] + text[start:end] + text[end:]
            case _:
                to = draw(st.integers(0, len(text)))
                text = text[:to] + text[start:end] + text[to:]
    return text


@settings(max_examples=250)
@given(mutated())
def test_a_mutated_recipe_gives_a_plan_or_diagnostics(text: str) -> None:
    check(text.encode("utf-8", "surrogatepass"))


@settings(max_examples=150)
@given(st.binary(max_size=400))
def test_any_bytes_give_diagnostics(data: bytes) -> None:
    check(data)


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x, x]\n"
        + "".join(f"b{i}: &b{i} [*{'a' if not i else f'b{i - 1}'}, *a, *a]\n" for i in range(60)),
        "x: &x [" + "*y, " * 10 + "]\n",
        "a: &a {<<: *a}\n",
        "[" * 50_000,
        "{a: " * 50_000,
        "- " * 50_000,
        "a: |\n" + "  line\n" * 50_000,
        '"' + "\\x41" * 100_000,
        "k" * 200_000 + ": 1\n",
    ],
    ids=["laughs", "unknown", "itself", "brackets", "braces", "dashes", "block", "escapes", "key"],
)
def test_hostile_shapes_end(text: str) -> None:
    check(text.encode())


def test_a_file_of_ten_megabytes_is_refused_unread() -> None:
    outcome = compiled(b"a: 1\n" * 2_200_000)
    assert [d.code for d in outcome.diagnostics] == ["PT0104"]
