"""Diagnostics of every shape over one small file, for all output formats."""

from typing import Any

from posttrain.spec.diagnostic import Diagnostic, Edit, Label, Span

FILE = "recipe.yaml"
LINES = [
    "recipe: 1",
    "name: demo",
    "models:",
    "  base:",
    "    init: {model_type: qwen2, num_hidden_layers: 1_000, num_attention_heads: 4}",
    "    tokenizer: {init: characters}  # built",
    "",
    "vars: {名前: 値, b: ${vars.b}}",
    "tabs:\there\tand there",
    "description: " + "long words " * 30,
    "stages:",
    "  sft: {train: stf}",
]
NAMES = {FILE: "recipes/demo/recipe.yaml"}


def span_at(line: int, column: int, end: int, file: str = FILE, end_line: int | None = None) -> Span:
    return Span(file, line, column, end_line or line, end)


def make_error(message: str, span: Span, *labels: tuple[Span, str], **more: Any) -> Diagnostic:
    made = tuple(Label(place, text) for place, text in labels)
    return Diagnostic("PT0201", "error", message, span, made, **more)


CASES = {
    "plain": make_error("unknown key `layer`", span_at(5, 31, 48), help="did you mean `num_hidden_layers`?"),
    "labels on one line": make_error(
        "three places of one line",
        span_at(5, 11, 17),
        (span_at(5, 50, 55), "the last"),
        (span_at(5, 11, 17), "the place itself"),
        (span_at(5, 31, 48), "between"),
    ),
    "labels on other lines": make_error(
        "two places before it",
        span_at(5, 50, 55),
        (span_at(2, 1, 5), "named here"),
        (span_at(4, 3, 7), "the model"),
    ),
    "overlapping labels": make_error(
        "one inside the other", span_at(5, 11, 80), (span_at(5, 31, 48), "inside")
    ),
    "several lines": make_error(
        "a whole block", span_at(4, 3, 1, end_line=8), (span_at(11, 1, 7), "long after")
    ),
    "several lines and labels": make_error(
        "a block, with something inside and before",
        span_at(4, 3, 1, end_line=8),
        (span_at(5, 11, 17), "inside"),
        (span_at(2, 1, 5), "before"),
    ),
    "a tall label": make_error(
        "the label is a block", span_at(2, 1, 5), (span_at(4, 3, 1, end_line=8), "this block")
    ),
    "wide characters": make_error(
        "after wide ones", span_at(8, 16, 17), (span_at(8, 8, 10), "two characters, four places")
    ),
    "tabs": make_error("after a tab", span_at(9, 12, 15), (span_at(9, 7, 11), "between tabs")),
    "a long line": make_error(
        "far to the right", span_at(10, 200, 205), (span_at(10, 1, 12), "out of sight")
    ),
    "a long line, near": make_error("at the left", span_at(10, 14, 18)),
    "the end of the file": make_error("nothing more", span_at(13, 1, 2)),
    "another file": make_error(
        "in two files",
        span_at(1, 1, 7),
        (span_at(3, 2, 5, "base.yaml"), "not to be read"),
        help="one line\nand another",
    ),
    "an option": make_error(
        "what was set does not fit", span_at(1, 1, 3, "--set seed"), (span_at(1, 1, 7), "replaces this value")
    ),
    "with an edit": make_error(
        "there is no training method `stf`",
        span_at(12, 16, 19),
        help="did you mean `sft`?",
        edit=Edit(span_at(12, 16, 19), "sft"),
    ),
    "a warning": Diagnostic("PT0510", "warning", "50 %: a, b\nand c", span_at(2, 1, 5)),
    "a note": Diagnostic("PT0705", "note", "only to know", span_at(2, 7, 11)),
}
