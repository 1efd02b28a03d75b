"""Every diagnostic has a page with valid examples: the wrong one raises exactly its code."""

from dataclasses import replace

import pytest

from posttrain.compiler.diagnostic_codes import all_codes
from posttrain.compiler.pipeline import CompileResult, compile_recipe
from posttrain.compiler.render.code_page import render_code_page
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG
from posttrain.spec.diagnostic import Code

CODES = {code.id: code for code in all_codes()}
# Codes that a recipe alone cannot raise: they concern the command line.
FROM_OPTIONS = {"PT0113": ("stages.sft.params.batch_size.size", "4")}


def compiled(text: str, code: Code, *settings: tuple[str, str]) -> CompileResult:
    beside = {path: content.encode() for path, content in code.files}
    source = SourceFile("recipe.yaml", text.encode("utf-8", "surrogatepass"))
    lock = SourceFile("recipe.lock", beside["recipe.lock"]) if "recipe.lock" in beside else None
    request = CompileRequest(source=source, catalog=CATALOG, read=beside.get, overrides=settings, lock=lock)
    return compile_recipe(request)


@pytest.mark.parametrize("id", CODES)
def test_the_wrong_example_raises_exactly_its_code(id: str) -> None:
    code = CODES[id]
    # One example is about a missing file, so its folder is empty.
    bare = replace(code, files=()) if id == "PT0409" else code
    options = [FROM_OPTIONS[id]] if id in FROM_OPTIONS else []
    found = compiled(code.wrong, bare, *options).diagnostics
    assert {d.code for d in found} == {id}, [(d.code, d.message) for d in found]
    assert all(d.severity == code.severity for d in found)


@pytest.mark.parametrize("id", CODES)
def test_the_right_example_raises_nothing(id: str) -> None:
    outcome = compiled(CODES[id].right, CODES[id])
    assert outcome.diagnostics == ()
    assert outcome.plan is not None


@pytest.mark.parametrize("id", CODES)
def test_the_page_says_what_it_must(id: str) -> None:
    text = render_code_page(CODES[id])
    code = CODES[id]
    assert text.startswith(f"# {id}: {code.title}\n\nSeverity: {code.severity}\n")
    assert "```diff\n" in text
    changed = set(code.wrong.splitlines()) ^ set(code.right.splitlines())
    assert all(f"-{line}\n" in text or f"+{line}\n" in text for line in changed)
