"""Diagnostics of every shape over one small file, for all forms of output."""

from typing import Any

from posttrain.spec.diagnostic import Diagnostic, Edit, Label, Span

FILE = "recipe.yaml"
LINES = [
    "recipe: 1",
    "name: demo",
    "models:",
    "  base:",
    "    init: {family: qwen2, layers: 1_000, heads: 4}",
    "    tokenizer: {init: characters}  # built",
    "",
    "vars: {名前: 値, b: ${vars.b}}",
    "tabs:\there\tand there",
    "description: " + "long words " * 30,
    "stages:",
    "  sft: {train: stf}",
]
NAMES = {FILE: "recipes/demo/recipe.yaml"}


def at(line: int, column: int, end: int, file: str = FILE, end_line: int | None = None) -> Span:
    return Span(file, line, column, end_line or line, end)


def error(message: str, span: Span, *labels: tuple[Span, str], **more: Any) -> Diagnostic:
    made = tuple(Label(place, text) for place, text in labels)
    return Diagnostic("PT0201", "error", message, span, made, **more)


CASES = {
    "plain": error("unknown key `layer`", at(5, 27, 33), help="did you mean `layers`?"),
    "labels on one line": error(
        "three places of one line",
        at(5, 11, 17),
        (at(5, 35, 40), "the last"),
        (at(5, 11, 17), "the place itself"),
        (at(5, 27, 33), "between"),
    ),
    "labels on other lines": error(
        "two places before it", at(5, 35, 40), (at(2, 1, 5), "named here"), (at(4, 3, 7), "the model")
    ),
    "overlapping labels": error("one inside the other", at(5, 11, 47), (at(5, 27, 33), "inside")),
    "several lines": error("a whole block", at(4, 3, 1, end_line=8), (at(11, 1, 7), "long after")),
    "several lines and labels": error(
        "a block, with something inside and before",
        at(4, 3, 1, end_line=8),
        (at(5, 11, 17), "inside"),
        (at(2, 1, 5), "before"),
    ),
    "a tall label": error("the label is a block", at(2, 1, 5), (at(4, 3, 1, end_line=8), "this block")),
    "wide characters": error("after wide ones", at(8, 16, 17), (at(8, 8, 10), "two characters, four places")),
    "tabs": error("after a tab", at(9, 12, 15), (at(9, 7, 11), "between tabs")),
    "a long line": error("far to the right", at(10, 200, 205), (at(10, 1, 12), "out of sight")),
    "a long line, near": error("at the left", at(10, 14, 18)),
    "the end of the file": error("nothing more", at(13, 1, 2)),
    "another file": error(
        "in two files",
        at(1, 1, 7),
        (at(3, 2, 5, "base.yaml"), "not to be read"),
        help="one line\nand another",
    ),
    "an option": error(
        "what was set does not fit", at(1, 1, 3, "--set seed"), (at(1, 1, 7), "instead of this")
    ),
    "with an edit": error(
        "there is no training method `stf`",
        at(12, 16, 19),
        help="did you mean `sft`?",
        edit=Edit(at(12, 16, 19), "sft"),
    ),
    "a warning": Diagnostic("PT0510", "warning", "50 %: a, b\nand c", at(2, 1, 5)),
    "a note": Diagnostic("PT0705", "note", "only to know", at(2, 7, 11)),
}
