"""Diagnostics as text: marks align with their text for all kinds of characters."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.compiler.render.diagnostic_cases import CASES, FILE, LINES, NAMES
from tests.compiler.render.golden_files import assert_matches_golden

from posttrain.compiler.render.display_width import display_line
from posttrain.compiler.render.text_diagnostics import Styler, render_text
from posttrain.spec.diagnostic import Diagnostic, Label, Span

GOLDEN = Path(__file__).parent / "golden"
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def text_of(*diagnostics: Diagnostic, colour: bool = False) -> str:
    return render_text(diagnostics, {FILE: LINES}, NAMES, Styler(colour))


def test_every_shape_is_as_reviewed() -> None:
    blocks = [
        f"## {name}\n{render_text([case], {FILE: LINES}, NAMES, Styler())}" for name, case in CASES.items()
    ]
    assert_matches_golden(GOLDEN / "text.txt", "\n".join(blocks))


@pytest.mark.parametrize("name", CASES)
def test_colour_adds_nothing_but_colour(name: str) -> None:
    coloured = text_of(CASES[name], colour=True)
    assert ESCAPE.search(coloured)
    assert ESCAPE.sub("", coloured) == text_of(CASES[name])


def test_the_last_line_counts() -> None:
    assert text_of(*CASES.values()).splitlines()[-1] == "15 errors, 1 warning, 1 note"
    assert text_of() == ""


characters = st.characters(
    blacklist_categories=("Cs",), blacklist_characters="\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
)
texts = st.lists(st.text(characters, max_size=140), min_size=1, max_size=4)


@st.composite
def spans(draw: st.DrawFn, lines: list[str]) -> Span:
    first = draw(st.integers(1, len(lines) + 1))
    last = draw(st.integers(first, len(lines) + 1))
    begin = draw(st.integers(1, 160))
    end = draw(st.integers(begin + 1, 170) if last == first else st.integers(1, 160))
    return Span(FILE, first, begin, last, end)


@settings(max_examples=100)
@given(st.data())
def test_any_place_in_any_text_can_be_shown(data: st.DataObject) -> None:
    lines = data.draw(texts)
    labels = [Label(data.draw(spans(lines)), f"label {i}") for i in range(data.draw(st.integers(0, 4)))]
    found = Diagnostic("PT0201", "error", "message", data.draw(spans(lines)), tuple(labels))
    rendered = render_text([found], {FILE: lines}, NAMES, Styler())
    assert all(label.text in rendered for label in labels)
    assert all(printable(line) for line in rendered.splitlines())


def printable(line: str) -> bool:
    """Whether a line is free of control characters."""
    return all(character >= " " and character != "\x7f" for character in line)


@settings(max_examples=100)
@given(st.text(st.sampled_from("ab 日\té"), min_size=1, max_size=60), st.data())
def test_the_stroke_is_exactly_under_the_words(line: str, data: st.DataObject) -> None:
    line = line.rstrip() + "."
    begin = data.draw(st.integers(1, len(line)))
    end = data.draw(st.integers(begin + 1, len(line) + 1))
    found = Diagnostic("PT0201", "error", "message", Span(FILE, 1, begin, 1, end))
    _, _, _, source, stroke, *_ = render_text([found], {FILE: [line]}, {}, Styler()).splitlines()
    before, inside = display_line(line[: begin - 1]).width, display_line(line[: end - 1]).width
    assert source == "1 | " + display_line(line).text
    assert stroke == "  | " + " " * before + "^" * (inside - before)
