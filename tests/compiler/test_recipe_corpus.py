"""The corpus: each recipe in `cases/` with the compiler's output.

`NAME.yaml` is the input. `NAME.out` contains the diagnostics as text, and the steps of the plan if the
recipe compiles. A first line such as `# --profile NAME --set PATH=VALUE` sets options, and `NAME.lock` is the
lockfile of the case. `make test PYTEST_ARGS="--regenerate tests/compiler/test_recipe_corpus.py"`
regenerates the outputs; review the changes before you commit them.
"""

import shlex
from pathlib import Path

import pytest

from posttrain.compiler.pipeline import compile_recipe
from posttrain.compiler.render.text_diagnostics import Styler, render_text
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG
from posttrain.spec.canonical_json import canonical_json
from posttrain.spec.plan import Plan

CASES = Path(__file__).parent / "cases"
FILES = sorted(path.name for path in CASES.glob("*.yaml"))


def outcome_of(path: Path) -> str:
    """Diagnostics and plan as text, without machine-specific values."""
    data = path.read_bytes()

    def beside(name: str) -> bytes | None:
        found = CASES / "beside" / name
        return found.read_bytes() if found.is_file() else None

    stack = {"torch": "2", "transformers": "5", "trl": "1", "duckdb": "1"}
    source = SourceFile(path.name, data)
    lock = path.with_suffix(".lock")
    request = CompileRequest(
        source=source,
        catalog=CATALOG,
        read=beside,
        stack=stack,
        profiles=options_of(data, "--profile"),
        overrides=tuple((s.partition("=")[0], s.partition("=")[2]) for s in options_of(data, "--set")),
        lock=SourceFile(lock.name, lock.read_bytes()) if lock.exists() else None,
    )
    outcome = compile_recipe(request)
    texts = {path.name: data.decode("utf-8-sig", "replace").splitlines()}
    if request.lock is not None:
        texts[request.lock.name] = request.lock.data.decode().splitlines()
    for file in sorted((CASES / "beside").glob("*.yaml")):
        texts[file.name] = file.read_text().splitlines()
    shown = render_text(outcome.diagnostics, texts, {}, Styler())
    return shown + (_steps(outcome.plan) if outcome.plan else "")


def options_of(data: bytes, name: str) -> tuple[str, ...]:
    """The values of an option in the case's first line."""
    first = data.decode("utf-8-sig", "replace").partition("\n")[0]
    words = shlex.split(first[1:]) if first.startswith("# --") else []
    return tuple(value for option, value in zip(words[::2], words[1::2], strict=True) if option == name)


def _steps(plan: Plan) -> str:
    lines = [f"plan {plan.name}"]
    for step in plan.steps:
        inputs = ", ".join(f"{r}={i.step}" + (f".{i.part}" if i.part else "") for r, i in step.inputs.items())
        gates = f" behind {', '.join(step.gates)}" if step.gates else ""
        lines.append(f"  {step.id} = {step.kind}({inputs}){gates} {canonical_json(step.params)}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", FILES)
def test_the_compiler_makes_of_it_what_was_reviewed(name: str, request: pytest.FixtureRequest) -> None:
    found = outcome_of(CASES / name)
    expected = (CASES / name).with_suffix(".out")
    if request.config.getoption("--regenerate"):
        expected.write_text(found)
    assert found == expected.read_text()


@pytest.mark.parametrize("name", FILES)
def test_what_is_compiled_twice_is_the_same(name: str) -> None:
    assert outcome_of(CASES / name) == outcome_of(CASES / name)
