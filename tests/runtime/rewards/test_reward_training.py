"""An eval and GRPO with a reward that combines a judge and a user-defined function."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from tests.recipe_command import TINY_RECIPE, product_path, run_command
from tests.runtime.rewards.fake_judge_server import FakeJudge, run_judge

from posttrain.runtime.events import read_events
from posttrain.runtime.rows_io import read_rows

pytestmark = pytest.mark.slow
NODES = """\
rewards:
  judged:
    reads: {completion: text, answer: text}
    nodes:
      digits: {python: {call: grade.py:digits, with: {text: completion}, low: 0, high: 1}}
      liked:
        judge: {of: completion, endpoint: critic, rubric: Short?, scale: [0, 10], with: {answer: answer}}
    returns: {sum: [digits, {scale: {of: liked, factor: 0.1}}]}
stages:
  before: {eval: base, data: sums.test, reward: judged, metrics: {liked: liked}, sampling: {max_tokens: 6}}
  grpo:
    train: grpo
    model: base
    data: sums.train
    reward: judged
    params: {max_steps: 3, num_prompts: 4, num_generations: 4, learning_rate: 1.0e-3,
        max_completion_length: 6}
"""
GRADE = """\
def digits(text):
    share = sum(c.isdigit() for c in text) / max(1, len(text))
    return share, f"{share:.0%} digits"
"""


def by_length(body: dict[str, Any]) -> tuple[int, str]:
    text = body["messages"][-1]["content"].split("<judged>\n")[1].split("\n</judged>")[0]
    return 200, f"it has {len(text)} characters\nVERDICT: {max(0, 10 - len(text))}"


def test_a_model_is_measured_and_trained_by_a_judge_and_a_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("JUDGE_KEY", "s3cret-of-the-judge")
    shutil.copytree(TINY_RECIPE, tmp_path / "recipe")
    recipe = tmp_path / "recipe" / "recipe.yaml"
    head = recipe.read_text().partition("rewards:\n")[0]
    (tmp_path / "recipe" / "grade.py").write_text(GRADE)
    with run_judge(FakeJudge(answer=by_length)) as model:
        critic = f"{{provider: vllm, model: m, base_url: '{model.url}', api_key: {{env: JUDGE_KEY}}}}"
        recipe.write_text(f"{head}endpoints:\n  critic: {critic}\n{NODES}")
        done = run_command("run", recipe, "--home", tmp_path / "home")
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(seen["headers"]["authorization"] == "Bearer s3cret-of-the-judge" for seen in model.requests)

    scored = read_rows(product_path(tmp_path / "home", "before"), "completions")
    assert len(scored) == 17
    for row in scored:
        length = len(row["completion"])
        assert row["node:liked"] == max(0, 10 - length)
        assert row["reason:liked"].startswith(f"it has {length} characters")
        assert row["reason:digits"] == f"{row['node:digits']:.0%} digits"
        assert row["node:returns"] == pytest.approx(row["node:digits"] + 0.1 * row["node:liked"])

    events = read_events(product_path(tmp_path / "home", "grpo").parent / "record" / "events.jsonl")
    steps = [event["values"] for event in events if event["kind"] == "metrics"]
    assert len(steps) == 3
    for values in steps:
        assert values["unscored"] == 0
        assert values["reward/returns"] == pytest.approx(
            values["reward/digits"] + 0.1 * values["reward/liked"]
        )
        assert "reward_std/liked" in values

    trace = sorted((product_path(tmp_path / "home", "grpo").parent / "record" / "trace").iterdir())
    assert [path.name for path in trace] == [f"step-{step:06}-0-rank-0.parquet" for step in range(3)]
    rows = parquet.read_table(trace[2].parent).to_pylist()
    assert [row["step"] for row in rows] == [0] * 16 + [1] * 16 + [2] * 16
    assert all(row["node:liked"] == max(0, 10 - len(row["completion"])) for row in rows)
    assert all(row["reason:digits"] == f"{row['node:digits']:.0%} digits" for row in rows)

    kept = b"".join(path.read_bytes() for path in (tmp_path / "home").rglob("*") if path.is_file())
    assert b"s3cret-of-the-judge" not in kept
