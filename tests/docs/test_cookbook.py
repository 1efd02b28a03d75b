"""Every recipe of the cookbook compiles without diagnostics."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from posttrain.cli.compile import compile_file

PAGE = Path(__file__).parents[2] / "docs" / "cookbook.md"
_BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def sections() -> Iterator[tuple[str, dict[str, str]]]:
    """Each section with its files: the recipe, and the files named in its code blocks."""
    title, *parts = re.split(r"^## (.*)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert title.startswith("# Cookbook")
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        files = {file or "recipe.yaml": content for _, file, content in _BLOCK.findall(text)}
        if "recipe.yaml" in files:
            yield name, files


SECTIONS = dict(sections())


def test_every_section_is_in_the_list_at_the_top() -> None:
    page = PAGE.read_text(encoding="utf-8")
    linked = re.findall(r"^- \[(.*?)\]\(#(.*?)\)$", page, flags=re.MULTILINE)
    titles = re.findall(r"^## (.*)$", page, flags=re.MULTILINE)
    assert [title for title, _ in linked] == titles
    for title, anchor in linked:
        assert anchor == re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


@pytest.mark.parametrize("name", SECTIONS)
def test_the_recipe_compiles_without_diagnostics(name: str, tmp_path: Path) -> None:
    for file, content in SECTIONS[name].items():
        copies = 100 if file.endswith(".jsonl") else 1  # the page shows one row
        (tmp_path / file).write_text(content * copies, encoding="utf-8")
    outcome, _ = compile_file(tmp_path / "recipe.yaml", (), ())
    assert [str(finding) for finding in outcome.diagnostics] == []
    assert outcome.plan is not None
    assert outcome.plan.steps
