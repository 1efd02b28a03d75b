"""The key tables of docs/moving.md: our keys exist, and the compiler suggests the same mapping."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from ruamel.yaml import YAML
from tests.recipe_command import run_command
from tests.runtime.data.build_datasets import BuiltDatasets

from posttrain.cli.compile import compile_file
from posttrain.compiler.checks.reserved_trl_args import reserved_args
from posttrain.compiler.data.relational_steps import RELATIONAL_STEPS
from posttrain.compiler.diagnosis.key_suggestions import key_hint, key_location_hint
from posttrain.compiler.facts.fact_tables import load_table
from posttrain.runtime.catalog import CATALOG
from posttrain.spec.adapter_declaration import Adapter
from posttrain.spec.artifact_stages import Export
from posttrain.spec.declaration_fields import keys_of
from posttrain.spec.declarations import Dataset, Environment
from posttrain.spec.extension import Method, Source
from posttrain.spec.hardware import Hardware, Placement, Rollouts
from posttrain.spec.inference import Sampling
from posttrain.spec.model_declaration import Model
from posttrain.spec.recipe import Recipe
from posttrain.spec.tokenizer_declaration import Tokenizer
from posttrain.spec.train_stage import InLoopEval, Train

PAGE = (Path(__file__).parents[2] / "docs" / "moving.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_WORD = re.compile(r"`([A-Za-z_]+)`")
_KEY = re.compile(r"`([a-z]+)\.([a-z_]+)`")


def method_keys() -> Iterator[list[str]]:
    for name in CATALOG.names("method"):
        method = CATALOG.find("method", name)
        assert isinstance(method, Method)
        yield keys_of(method.params)


def hub_keys() -> list[str]:
    found = CATALOG.find("source", "hub")
    assert isinstance(found, Source)
    return keys_of(found.params)


def trl_arguments() -> list[str]:
    facts = load_table("trl")
    return [name for known in (facts["shared"], *facts["classes"].values()) for name in known]


# The sets of keys that are valid in each place.
PLACES: dict[str, list[list[str]]] = {
    "params": list(method_keys()),
    "stage": [keys_of(Train)],
    "placement": [keys_of(Placement)],
    "rollouts": [keys_of(Rollouts)],
    "evaluate": [keys_of(InLoopEval)],
    "trl": [trl_arguments()],
    "models": [keys_of(Model)],
    "adapter": [keys_of(Adapter)],
    "tokenizer": [keys_of(Tokenizer)],
    "steps": [[*RELATIONAL_STEPS, *CATALOG.names("data")]],
    "hub": [hub_keys()],
    "op": [list(CATALOG.names("reward"))],
    "sampling": [keys_of(Sampling)],
    "environments": [keys_of(Environment)],
    "export": [keys_of(Export)],
    "hardware": [keys_of(Hardware)],
    "recipe": [keys_of(Recipe)],
}


# The places where users may write foreign keys, in addition to the valid places.
KNOWN_MISTAKES = {
    **PLACES,
    "steps": [*PLACES["steps"], keys_of(Dataset)],
    "hub": [*PLACES["hub"], keys_of(Dataset)],
}


class Line(NamedTuple):
    theirs: list[str]
    ours: list[tuple[str, str]]


def table_lines() -> Iterator[Line]:
    """The rows of the tables of keys."""
    for row in re.findall(r"^\| (`.*?) \| (.*?) \|(?:.*\|)?$", PAGE, flags=re.MULTILINE):
        theirs, ours = _WORD.findall(row[0]), _KEY.findall(row[1])
        if theirs and ours:
            yield Line(theirs, ours)


LINES = list(table_lines())
MISSING_KEYS = PAGE.partition("## Not supported")[2].partition("\n## ")[0]


def hint_for(word: str, places: set[str]) -> str:
    """All suggestions for a foreign key in these places."""
    hints = [key_hint(word, legal, what="keys here") for place in places for legal in KNOWN_MISTAKES[place]]
    return " ".join((key_location_hint(word), *(text.partition("keys here")[0] for text, _ in hints)))


def test_there_are_the_lines() -> None:
    assert len(LINES) > 100
    assert {place for line in LINES for place, _ in line.ours} >= {"params", "models", "steps", "op", "hub"}


@pytest.mark.parametrize("place", sorted({place for line in LINES for place, _ in line.ours}))
def test_ours_exist(place: str) -> None:
    named = {key for line in LINES for where, key in line.ours if where == place}
    assert named <= {key for legal in PLACES[place] for key in legal}


@pytest.mark.parametrize("line", LINES, ids=lambda line: ",".join(line.theirs))
def test_the_compiler_suggests_the_same_keys(line: Line) -> None:
    places = {place for place, _ in line.ours}
    ours = {key for _, key in line.ours}
    for word in line.theirs:
        if word in ours:  # the same name in both tools
            continue
        hint = hint_for(word, places)
        assert any(re.search(rf"\b{key}\b", hint) for key in ours), f"{word}: {hint}"


@pytest.mark.parametrize("word", _WORD.findall(MISSING_KEYS))
def test_unsupported_keys_have_an_explanation(word: str) -> None:
    assert key_location_hint(word)


@pytest.mark.parametrize("kind", sorted(load_table("trl")["classes"]))
def test_reserved_trl_arguments_are_never_suggested_under_trl(kind: str) -> None:
    hints = {word: key_location_hint(word) for word in reserved_args(kind)}
    assert [word for word, hint in hints.items() if not hint or "`trl: {" + word in hint] == []


def examples() -> dict[str, dict[str, str]]:
    titles = re.split(r"^## (.*)$", PAGE, flags=re.MULTILINE)
    found = {
        title: {file or "recipe.yaml": content for _, file, content in _BLOCK.findall(text)}
        for title, text in zip(titles[1::2], titles[2::2], strict=True)
    }
    return {title: files for title, files in found.items() if "recipe.yaml" in files}


EXAMPLES = examples()


def test_there_are_seven_examples() -> None:
    assert len(EXAMPLES) == 7


def write_example(name: str, folder: Path, copied: int = 200) -> Path:
    for file, content in EXAMPLES[name].items():
        copies = copied if file.endswith(".jsonl") else 1  # the page shows one row
        lines = (content.replace("What is", f"{number}: What is") for number in range(1, copies))
        (folder / file).write_text("".join([content, *lines]), encoding="utf-8")
    return folder / "recipe.yaml"


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_compiles_without_diagnostics(name: str, tmp_path: Path) -> None:
    outcome, _ = compile_file(write_example(name, tmp_path), (), ())
    assert [str(finding) for finding in outcome.diagnostics] == []
    assert outcome.plan is not None


@pytest.mark.slow
def test_the_validation_sets_are_evaluated(tmp_path: Path) -> None:
    """The smoke profile of the example runs all five trainings."""
    (name,) = (title for title in EXAMPLES if title.startswith("Validation sets"))
    recipe = str(write_example(name, tmp_path, copied=40))
    done = run_command("run", recipe, "--profile", "smoke", "--home", str(tmp_path / "home"))
    assert done.returncode == 0, done.stderr
    shown = run_command("status", "--format", "json", "--home", str(tmp_path / "home"))
    steps = json.loads(shown.stdout)["steps"]
    results: dict[str, Any] = {step["id"]: step["outcome"].get("metrics", {}) for step in steps}
    trained = {name: sorted(found) for name, found in results.items() if found}
    assert trained.keys() == {"sft", "dpo", "kto", "orpo", "scorer"}
    assert all("eval_loss" in names for names in trained.values())
    assert trained["scorer"] == ["eval_accuracy", "eval_loss", "eval_margin"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("start", "product"),
    [
        ("A merge", "merge"),
        ("A weighted mixture", "sft"),
        ("New tokens", "export_pissa"),
        ("Tool calls", "tools"),
    ],
)
def test_the_code_of_an_example_runs(start: str, product: str, tmp_path: Path) -> None:
    (name,) = (title for title in EXAMPLES if title.startswith(start))
    recipe, home = str(write_example(name, tmp_path, copied=40)), str(tmp_path / "home")
    done = run_command("run", recipe, "--profile", "smoke", "--home", home)
    assert done.returncode == 0, done.stdout + done.stderr
    steps = json.loads(run_command("status", "--format", "json", "--home", home).stdout)["steps"]
    assert {step["state"] for step in steps} == {"done"}
    assert product in {step["id"] for step in steps}


TURNS = [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]
# Rows of other tools, by their names on the page.
ROWS: dict[str, tuple[dict[str, str], dict[str, Any], set[str]]] = {
    "`sharegpt`": ({}, {"conversations": TURNS}, {"messages"}),
    "`alpaca`": ({}, {"instruction": "a", "input": "", "output": "b"}, {"prompt", "completion"}),
    "`chat_template` with other names": ({}, {"talk": TURNS}, {"messages"}),
    "LLaMA-Factory's `sharegpt` with `function_call`, `observation`, and a column `tools`, which stays": (
        {},
        {
            "conversations": [
                {"from": "human", "value": "a"},
                {"from": "function_call", "value": '{"name": "f", "arguments": {}}'},
                {"from": "observation", "value": "b"},
            ],
            "tools": '[{"name": "f", "parameters": {}}]',
        },
        {"messages", "tools"},
    ),
    "Hermes: `<tool_call>`, `<tool_response>` and `<tools>` in the text": (
        {},
        {
            "conversations": [
                {"from": "system", "value": '<tools>[{"name": "f", "parameters": {}}]</tools>'},
                {"from": "human", "value": "a"},
                {"from": "gpt", "value": '<tool_call>{"name": "f", "arguments": {}}</tool_call>'},
                {"from": "tool", "value": "<tool_response>b</tool_response>"},
            ]
        },
        {"messages", "tools"},
    ),
    "messages, for KTO or GRPO": (
        {"messages": "messages"},
        {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
        {"prompt", "completion"},
    ),
}


def reshape_cases() -> dict[str, str]:
    found = re.findall(r"^\| ([^|]*) \| `- (.*)` \|$", PAGE, flags=re.MULTILINE)
    return {name: step.replace("\\|", "|") for name, step in found}


def test_all_rows_are_tried() -> None:
    assert reshape_cases().keys() == ROWS.keys()


@pytest.mark.parametrize("name", ROWS)
def test_the_steps_convert_the_rows(name: str, tmp_path: Path) -> None:
    columns, row, expected = ROWS[name]
    step = YAML(typ="safe").load(reshape_cases()[name])
    source = {"rows": {"rows": [row, row], **({"columns": columns} if columns else {})}}
    found = BuiltDatasets(tmp_path, {"it": {"from": source, "steps": [step]}})
    assert expected <= found.columns("it").keys()
    assert all(found.rows("it")[0][column] for column in expected)


def test_explain_suggests_the_same_key() -> None:
    done = run_command("explain", "lora_r")
    assert done.returncode == 2
    assert "`r` belongs in `models.NAME.adapter`" in done.stderr
