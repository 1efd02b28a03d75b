"""Unclosed brackets are reported at their place, and the rest is checked as if they were closed."""

import pytest

from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE, minimal_recipe
from posttrain.compiler.pipeline import compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.compiler.text.unclosed_brackets import find_unclosed_brackets
from posttrain.runtime.catalog import CATALOG
from posttrain.spec.diagnostic import Diagnostic

CLOSING = [at for at, sign in enumerate(MINIMAL_RECIPE) if sign in "}]"]


def found_in(text: str) -> list[Diagnostic]:
    request = CompileRequest(
        source=SourceFile("recipe.yaml", text.encode()), catalog=CATALOG, read=lambda _: None
    )
    return list(compile_recipe(request).diagnostics)


def errors_in(text: str) -> list[tuple[str, int]]:
    return [(found.code, found.span.line) for found in found_in(text)]


@pytest.mark.parametrize("at", CLOSING)
def test_whichever_is_left_out_it_is_told_in_its_line_and_nothing_else_is(at: int) -> None:
    line = MINIMAL_RECIPE.count("\n", 0, at) + 1
    assert errors_in(MINIMAL_RECIPE[:at] + MINIMAL_RECIPE[at + 1 :]) == [("PT0101", line)]


@pytest.mark.parametrize("at", CLOSING)
def test_a_mistake_elsewhere_is_found_in_the_same_run(at: int) -> None:
    line = MINIMAL_RECIPE.count("\n", 0, at) + 1
    changes = [("model_type: qwen2", "familie: qwen2", 5), ("check: {eval: sft,", "check: {eval: sfd,", 18)]
    before, after, place = next(change for change in changes if change[2] != line)
    text = MINIMAL_RECIPE[:at] + MINIMAL_RECIPE[at + 1 :]
    assert ("PT0101", line) in errors_in(text)
    assert place in [number for code, number in errors_in(text.replace(before, after)) if code != "PT0101"]


def test_several_are_told_each_at_its_place() -> None:
    text = minimal_recipe(
        ("{init: characters}", "{init: characters"), ("text, answer: text}", "text, answer: text")
    )
    text = text.replace("metrics: {score: {mean: returns}}}", "metrics: {score: {mean: returns}")
    found = found_in(text)
    assert [(d.code, d.span.line, d.span.column) for d in found] == [
        ("PT0101", 6, 16),
        ("PT0101", 14, 12),
        ("PT0101", 18, 63),
    ]


def test_the_message_shows_the_bracket_the_ones_about_it_and_what_to_write() -> None:
    (found,) = found_in(minimal_recipe(("{mean: returns}}}", "{mean: returns")))
    assert found.message == "unclosed {"
    assert (found.span.line, found.span.column) == (18, 71)
    assert [(label.span.column, label.text) for label in found.labels] == [
        (10, "also unclosed"),
        (63, "also unclosed"),
        (85, "assuming }}} before this place"),
    ]
    assert found.help.startswith("add `}}}` where it ends")


def test_what_a_guess_was_made_of_is_not_judged() -> None:
    # The stage's `data` ends up in `params`, which is not a separate error.
    text = minimal_recipe(
        ("data: sums.train, params: {epochs: 1, batch_size: 4}}", "params: {epochs: 1, data: sums.train}")
    )
    assert errors_in(text) == [("PT0101", 17)]


def test_columns_after_a_bracket_in_the_same_line_are_those_of_the_file() -> None:
    text = minimal_recipe(("{test: 100}", "{test: [100}, ueber: 2"))
    spans = [(d.code, d.span.line, d.span.column) for d in found_in(text)]
    assert spans[0] == ("PT0101", 11, 23)


FLOW = """\
recipe: 1
name: demo
a: {
  b: {c: 1, d: [1, 2]
  e: {f: 1}
}
g: 1
"""


def test_in_a_mapping_of_many_lines_the_indentation_tells_which_it_is() -> None:
    found = find_unclosed_brackets(FLOW)
    assert found is not None
    assert [(one.char, one.line, one.column) for one in found.brackets] == [("{", 3, 5)]
    assert (found.line, found.column, found.closing, found.separator) == (3, 21, "}", ",")
    codes = {(d.code, d.span.line) for d in found_in(FLOW)}
    assert ("PT0101", 4) in codes
    assert ("PT0201", 7) in codes


@pytest.mark.parametrize(
    "text",
    [
        "a: {b: 1,\n  c: 2}\n",
        "a: 'it is {not one'\nb: \"nor [this\"\n",
        "a: |\n  {a text\n  [in a block\nb: >-\n\n  { another\n",
        "a: one {in the middle\nb: 1  # {in a comment\n",
        '- {a: 1}\n- [b, \'c]\', "d\\"}"]\n',
        'a: "two\n  lines { of text"\nb: {c: it\'s}\n',
        "a: &x {b: 1}\nc: !t [1]\n'd: {': 1\n",
        "a: {\n  b: {\n    c: 1\n}}\n",
        "a: {b: c # }\n  , d: 1}\n",
    ],
)
def test_what_is_closed_or_no_bracket_is_left_alone(text: str) -> None:
    assert find_unclosed_brackets(text) is None


def test_the_sibling_of_a_text_in_a_list_is_read() -> None:
    found = find_unclosed_brackets("- a: |\n    {text\n  b: {c: 1\n- d: 2\n")
    assert found is not None
    assert (found.brackets[0].line, found.brackets[0].column) == (2, 5)


def test_another_slip_is_told_as_it_was() -> None:
    text = MINIMAL_RECIPE.replace("name: demo", "name: demo\n\tmodels: 1")
    assert [code for code, _ in errors_in(text)] == ["PT0101"]
    assert [code for code, _ in errors_in(MINIMAL_RECIPE.replace("name: demo", 'name: "demo'))] == ["PT0101"]
