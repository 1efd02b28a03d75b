"""The command `recipe reward`."""

import json
from pathlib import Path

import pytest
from tests.recipe_command import run_command
from tests.runtime.rewards.reward_compilation import LIBRARY

TWO_PHASE = LIBRARY / "two-phase-reasoning" / "rewards.yaml"
RIGHT = "so<end_working_out><SOLUTION>4</SOLUTION>"


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    lines = [
        {"completion": RIGHT, "answer": "4"},
        {"completion": "", "answer": "4"},
        {"completion": RIGHT, "answer": None},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_every_nodes_value_for_every_row_as_json(rows: Path):
    done = run_command("reward", TWO_PHASE, "two_phase", "--rows", rows, "--format", "jsonl")
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["reward"] for line in found] == [12.5, -6.5, None]
    assert found[0]["nodes"]["answer_score"] == 5.0
    assert found[1]["nodes"]["solution"] is None
    assert {len(line["nodes"]) for line in found} == {24}


def test_a_table_for_people(rows: Path):
    done = run_command("reward", TWO_PHASE, "two_phase", "--rows", rows)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == [
        "row",
        "solution",
        "in_order",
        "format_exact",
        "reasoning_closes",
        "solution_opens",
        "solution_closes",
        "format_near",
        "exact",
        "answer_score",
        "first",
        "number_score",
        "returns",
    ]
    assert lines[1].split()[-1] == "12.5"
    assert lines[3].split()[-1] == "-"
    assert lines[4].split()[0] == "mean"
    assert lines[4].split()[-1] == "3"
    assert lines[-1] == "3 rows; range of the reward: -6.5 .. +12.5"


def test_a_users_function_and_a_setting_are_taken(tmp_path: Path, rows: Path):
    (tmp_path / "grade.py").write_text("def score(text): return len(text), 'by length'\n")
    recipe = tmp_path / "recipe.yaml"
    node = "{python: {call: grade.py:score, with: {text: completion}, high: '${vars.high}'}}"
    recipe.write_text(
        f"vars: {{high: 1}}\nrewards:\n  long: {{reads: {{completion: text}}, returns: {node}}}\n"
    )
    done = run_command(
        "reward", recipe, "long", "--rows", rows, "--format", "jsonl", "--set", "vars.high=100"
    )
    assert [json.loads(line)["reward"] for line in done.stdout.splitlines()] == [41.0, 0.0, 41.0]
    assert json.loads(done.stdout.splitlines()[0])["reasons"] == {"returns": "by length"}
    refused = run_command("reward", recipe, "long", "--rows", rows)
    assert refused.returncode == 1
    assert "it returned 41, which is outside -inf .. +1" in refused.stderr


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "rows.jsonl:1 is not JSON"),
        ("[1]", "rows.jsonl:1 is not a JSON object"),
        ('{"completion": "a"}', "rows.jsonl:1 has no `answer`, which the reward reads"),
        ('{"completion": 3, "answer": "4"}', "`completion` must be text; got 3"),
        ("", "has no rows"),
    ],
)
def test_rows_that_do_not_fit_are_a_misuse(rows: Path, line: str, said: str):
    rows.write_text(line + "\n")
    done = run_command("reward", TWO_PHASE, "two_phase", "--rows", rows)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_name_that_is_none_is_met_with_the_nearest(rows: Path):
    done = run_command("reward", TWO_PHASE, "two_fase", "--rows", rows)
    assert done.returncode == 2
    assert "did you mean `two_phase`?" in done.stderr


def test_a_mistaken_reward_is_shown_with_its_place(tmp_path: Path, rows: Path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("rewards:\n  it: {reads: {completion: text}, returns: {lenght: completion}}\n")
    done = run_command("reward", recipe, "it", "--rows", rows)
    assert done.returncode == 1
    assert "PT0501" in done.stderr
    assert "did you mean `length`?" in done.stderr
