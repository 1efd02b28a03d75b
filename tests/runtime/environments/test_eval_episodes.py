"""Evals with an environment: metrics, transcripts, and resuming after a kill."""

import json
import re
from typing import Any

import pytest
from tests.runtime.environments.episode_recipe import episode_recipe
from tests.runtime.methods.stage_harness import StageHarness, compile_plan

from posttrain.runtime.store.products import Product

pytestmark = pytest.mark.slow
_DRAWS = "metrics: {success: solved, turns: {mean: turns}, score: {mean: score}}, sampling: {temperature: 1.0"


def rows_of(product: Product) -> list[dict[str, Any]]:
    import pyarrow.parquet as parquet

    return parquet.read_table(product.files / "completions.parquet").to_pylist()


def _answer(guess: int | None, target: int) -> str:
    return "?" if guess is None else "<" if guess > target else ">"


@pytest.mark.parametrize("chat", [False, True], ids=["plain", "chat"])
def test_every_episode_is_kept_whole(bench: StageHarness, chat: bool) -> None:
    text = episode_recipe(tokens=2, chat=chat).replace(_DRAWS, f"{_DRAWS}, n: 2")
    plan = compile_plan(text)
    product = bench.run_step(plan, plan.step("before"))
    rows = rows_of(product)
    assert len(rows) == 2 * 81
    for row in rows:
        episode, turns = row["environment:episode"], row["transcript"]
        said = [turn["content"] for turn in turns if turn["role"] == "assistant"]
        assert "\n".join(said) == row["completion"]
        assert len(said) == episode["turns"] == row["node:turns"]
        guesses = [int(number[0]) if (number := re.search(r"\d+", one)) else None for one in said]
        assert row["node:solved"] == (row["node:score"] == 1.0) == (guesses[-1] == row["target"])
        assert episode["end"] in ("done", "turns")
        answers = [turn["content"] for turn in turns if turn["role"] == "user"]
        assert answers == [_answer(guess, row["target"]) for guess in guesses if guess != row["target"]]
    result = json.loads((product.files / "metrics.json").read_text())
    assert result["success"]["value"] == pytest.approx(sum(row["node:solved"] for row in rows) / len(rows))
    assert result["turns"]["value"] == pytest.approx(sum(row["node:turns"] for row in rows) / len(rows))


def test_an_eval_that_is_killed_goes_on_with_the_episodes_that_it_had(bench: StageHarness) -> None:
    plan = compile_plan(episode_recipe(tokens=2))
    step = plan.step("before")
    undisturbed = bench.run_step(plan, step).content_digest
    work = bench.work(step)
    bench.reset_step(step)
    bench.prepare_step(plan, step)
    assert bench.wait(step) == 0
    replies = sorted((work / "replies").iterdir())
    assert [path.name for path in replies] == ["model-turn0.jsonl", "model-turn1.jsonl"]
    # Simulates a kill during the second turn: logged completions are not sampled again.
    first = replies[0].read_bytes()
    half = replies[1].read_text().splitlines(keepends=True)
    replies[1].write_text("".join(half[: len(half) // 2]))
    (work / "receipt.json").unlink()

    bench.prepare_step(plan, step)
    assert bench.wait(step) == 0, bench.failure(step)
    assert replies[0].read_bytes() == first
    assert bench.commit(step).content_digest == undisturbed


def test_an_episode_that_outgrows_the_model_ends_with_the_score_so_far(bench: StageHarness) -> None:
    text = (
        episode_recipe(tokens=2)
        .replace("turns: 2,", "turns: 30,")
        .replace("'{observation}'", "'?{observation}?'")
    )
    rows = rows_of(bench.run_step(compile_plan(text), compile_plan(text).step("before")))
    ends = {row["environment:episode"]["end"] for row in rows}
    assert ends == {"done", "length"}
    for row in rows:
        assert row["node:is truncated"] == (row["environment:episode"]["end"] == "length")


def test_the_longest_completion_is_that_of_the_episode(bench: StageHarness) -> None:
    """As in training, observations count against the limit, and no turn exceeds the remaining tokens."""
    text = (
        episode_recipe(tokens=2)
        .replace("turns: 2,", "turns: 30,")
        .replace("'{observation}'", "'?{observation}?'")
    )
    text = text.replace("temperature: 1.0, max_tokens: 16", "temperature: 1.0, max_tokens: 11")
    assert "max_tokens: 11" in text
    for row in rows_of(bench.run_step(compile_plan(text), compile_plan(text).step("before"))):
        result = row["transcript"]
        spoken = sum(len(turn["content"]) for turn in result if turn["role"] == "assistant")
        heard = sum(
            3 for turn in result if turn["role"] == "user"
        )  # the observation with the template text around it
        assert spoken + heard <= 11 + 3  # the last observation is not part of a prompt
        assert len(result) < 30
        if row["environment:episode"]["end"] == "length":
            assert row["node:is truncated"]


def test_a_model_is_measured_in_the_environment_while_it_learns(bench: StageHarness) -> None:
    short = (
        "max_steps: 4, num_prompts: 4, num_generations: 4, learning_rate: 1.0e-2, max_completion_length: 8,"
        " on_constant_reward: warn"
    )
    plain = episode_recipe(params=short)
    measured = plain.replace(
        "reward: found, params: {max_steps",
        "reward: found, evaluate: {eval_steps: 2, evals: [before], metric_for_best_model: before.success,"
        " keep: best}, params: {max_steps",
    )
    plan = compile_plan(measured)
    grpo = bench.run_step(plan, plan.step("grpo"))
    events = [json.loads(line) for line in (grpo.record / "events.jsonl").read_text().splitlines()]
    found = {
        e["step"]: e["values"]
        for e in events
        if e["kind"] == "metrics" and "eval/before.turns" in e["values"]
    }
    assert sorted(found) == [2, 4]
    assert all(1 <= values["eval/before.turns"] <= 2 for values in found.values())
    best = max(values["eval/before.success"] for values in found.values())
    after = json.loads((bench.run_step(plan, plan.step("after")).files / "metrics.json").read_text())
    assert after["success"]["value"] == pytest.approx(best)  # an eval of the saved weights
    last = compile_plan(measured.replace(", metric_for_best_model: before.success, keep: best", ""))
    weights = [
        bench.run_step(p, p.step("grpo")).files / "model.safetensors" for p in (last, compile_plan(plain))
    ]
    assert weights[0].read_bytes() == weights[1].read_bytes()  # the in-loop eval did not affect the training
