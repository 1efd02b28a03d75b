"""Compilation with an enforced lockfile."""

from collections.abc import Mapping

import pytest

from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_RECIPE, minimal_recipe
from posttrain.compiler.lockfile.lock_entries import LockDifference, lock_differences, required_entries
from posttrain.compiler.pipeline import CompileResult, compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG
from posttrain.spec.lockfile import EntryId, Lockfile, format_lock, parse_lock

COMMIT = "0123456789abcdef0123456789abcdef01234567"
QWEN = minimal_recipe(
    (
        "    init: {model_type: qwen2, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4}\n",
        "    from: Qwen/Qwen2.5-0.5B\n",
    ),
    ("    tokenizer: {init: characters}\n", ""),
)
ROWS = minimal_recipe(
    (
        "{arithmetic: {digits: 2, count: 200}}",
        "{hub: {name: org/rows, columns: {prompt: text, answer: text, completion: text}}}",
    ),
    ("epochs: 1, batch_size: 4", "max_steps: 3, batch_size: 4"),
)
STACK = {"torch": "2.13", "duckdb": "2.0"}


def compiled(
    text: str,
    values: Mapping[EntryId, str] | str | None,
    files: Mapping[str, bytes] | None = None,
    stack: Mapping[str, str] = STACK,
) -> CompileResult:
    lock = None
    if values is not None:
        written = values if isinstance(values, str) else format_lock(values)
        lock = SourceFile("recipe.lock", written.encode("utf-8", "surrogateescape"))
    source = SourceFile("recipe.yaml", text.encode())
    read = (files or {}).get
    return compile_recipe(CompileRequest(source=source, catalog=CATALOG, read=read, stack=stack, lock=lock))


def errors(outcome: CompileResult) -> list[str]:
    return [found.message for found in outcome.diagnostics if found.severity == "error"]


def needs(text: str, files: Mapping[str, bytes] | None = None) -> dict[EntryId, str]:
    """An up-to-date lockfile, with a fixed commit for everything on the hub."""
    outcome = compiled(text, None, files)
    assert outcome.plan is not None, outcome.diagnostics
    return {
        id: value or COMMIT for id, value in required_entries(outcome.plan, outcome.hub_references).items()
    }


@pytest.mark.parametrize(
    ("text", "id", "step"),
    [
        (QWEN, ("model", "Qwen/Qwen2.5-0.5B@main"), "models.base"),
        (
            QWEN.replace("from: Qwen/Qwen2.5-0.5B\n", "from: Qwen/Qwen2.5-0.5B\n    revision: v2\n"),
            ("model", "Qwen/Qwen2.5-0.5B@v2"),
            "models.base",
        ),
        (
            MINIMAL_RECIPE.replace("tokenizer: {init: characters}", "tokenizer: {from: org/words}"),
            ("model", "org/words@main"),
            "models.base",
        ),
        (ROWS, ("dataset", "org/rows@main"), "datasets.sums"),
    ],
    ids=["model", "branch", "tokenizer", "dataset"],
)
def test_a_locked_revision_pins_what_is_on_the_hub(text: str, id: EntryId, step: str) -> None:
    loose = compiled(text, None)
    assert loose.plan is not None
    assert loose.hub_references == {id}
    assert not loose.plan.step(step).pinned
    locked = compiled(text, needs(text))
    assert errors(locked) == []
    assert locked.plan is not None
    assert locked.plan.step(step).pinned
    assert locked.plan.step("sft").pinned
    assert COMMIT in str(locked.plan.step(step).params)
    assert locked.plan.step(step).key != loose.plan.step(step).key


def test_a_commit_in_the_recipe_is_its_own_lock() -> None:
    text = QWEN.replace("from: Qwen/Qwen2.5-0.5B\n", f"from: Qwen/Qwen2.5-0.5B\n    revision: {COMMIT}\n")
    outcome = compiled(text, None)
    assert outcome.plan is not None
    entry = ("model", f"Qwen/Qwen2.5-0.5B@{COMMIT}")
    assert required_entries(outcome.plan, outcome.hub_references)[entry] == COMMIT
    locked = compiled(text, needs(text))
    assert locked.plan == outcome.plan


def test_a_locked_plan_without_hub_names_is_the_plan() -> None:
    assert compiled(MINIMAL_RECIPE, needs(MINIMAL_RECIPE)).plan == compiled(MINIMAL_RECIPE, None).plan


def test_what_is_not_locked_is_refused_where_it_is_written() -> None:
    outcome = compiled(QWEN, {id: value for id, value in needs(QWEN).items() if id[0] != "model"})
    assert outcome.plan is None
    (found,) = outcome.diagnostics
    assert (found.code, str(found.span)) == ("PT0141", "recipe.yaml:5:11")
    assert found.message == "recipe.lock has no revision for the model `Qwen/Qwen2.5-0.5B@main`"


TEMPLATE = {"chat.jinja": b"{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"}
WITH_FILE = minimal_recipe(
    ("tokenizer: {init: characters}", "tokenizer: {init: characters}\n    chat_template: chat.jinja")
)


def test_a_changed_file_and_another_version_are_refused() -> None:
    locked = needs(WITH_FILE, TEMPLATE)
    assert compiled(WITH_FILE, locked, TEMPLATE).plan is not None
    changed = compiled(WITH_FILE, locked, {"chat.jinja": TEMPLATE["chat.jinja"] + b"\n"})
    assert changed.plan is None
    assert ["chat.jinja" in message for message in errors(changed)] == [True]
    other = compiled(WITH_FILE, locked, TEMPLATE, {**STACK, "torch": "2.14"})
    assert other.plan is None
    assert errors(other) == [
        "`torch` is locked at 2.13, but is now 2.14"
    ]  # once, although many steps need it


def test_what_is_locked_and_not_needed_by_this_variant_does_no_harm() -> None:
    assert (
        compiled(MINIMAL_RECIPE, {**needs(MINIMAL_RECIPE), ("file", "other.jinja"): "0" * 64}).plan
        is not None
    )


@pytest.mark.parametrize(
    "text",
    ["", "<<<<<<< ours", format_lock({("stack", "b"): "1"}) + format_lock({("stack", "b"): "2"}), "\udcff"],
)
def test_a_lock_that_cannot_be_read_is_refused(text: str) -> None:
    outcome = compiled(MINIMAL_RECIPE, text)
    assert outcome.plan is None
    (found,) = outcome.diagnostics
    assert found.code == "PT0141"
    assert found.span.file == "recipe.lock"
    assert found.message.startswith("invalid lockfile: ")


def test_reasons_are_typed() -> None:
    lock = Lockfile({("stack", "torch"): "1", ("stack", "gone"): "1", ("model", "a@main"): COMMIT})
    needed = {("stack", "torch"): "2", ("file", "f"): "abc", ("model", "a@main"): None, ("image", "i"): None}
    assert lock_differences(needed, lock) == [
        LockDifference(reason="missing", kind="file", name="f", new="abc"),
        LockDifference(reason="missing", kind="image", name="i"),
        LockDifference(reason="changed", kind="stack", name="torch", old="1", new="2"),
        LockDifference(reason="extra", kind="stack", name="gone", old="1"),
    ]


def test_every_leg_of_a_matrix_is_locked() -> None:
    text = QWEN.replace("name: demo", "name: demo\nmatrix: {model: [org/a, org/b]}").replace(
        "Qwen/Qwen2.5-0.5B", '"${matrix.model}"'
    )
    outcome = compiled(text, None)
    assert outcome.hub_references == {("model", "org/a@main"), ("model", "org/b@main")}
    locked = compiled(text, needs(text))
    assert locked.plan is not None
    assert all(step.pinned for step in locked.plan.steps)


def test_the_lock_of_a_plan_is_read_back() -> None:
    assert parse_lock(format_lock(needs(QWEN))).values == needs(QWEN)
