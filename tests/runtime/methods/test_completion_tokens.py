"""The token count of a completion in its reward: the same in evals, training and generation."""

import pyarrow.parquet as parquet
import pytest
from tests.runtime.methods.stage_harness import StageHarness, metrics, recipe
from tests.runtime.rewards.reward_compilation import compile_yaml_reward, compiled_graph, evaluate_graph

from posttrain.spec.column_types import Interval

LONGEST = 6
_REWARD = """\
  brief:
    reads: {completion: text}
    nodes:
      size: {tokens: {}}
    returns: {ramp: {of: size, start: 2, end: 6, after: -1}}
"""
_ASK = "model: sft, data: sums.train, reward: brief"
_SAMPLING = f"sampling: {{max_tokens: {LONGEST}, temperature: 1.0, n: 2}}"
_LOOK = f"look: {{eval: sft, data: sums.test, reward: brief, metrics: {{size: {{mean: size}}}}, {_SAMPLING}}}"
_GENERATE = f"made: {{generate: sft, data: sums.test, reward: brief, keep: all, {_SAMPLING}}}"
_PARAMS = (
    f"params: {{max_steps: 3, learning_rate: 1.0e-3, max_completion_length: {LONGEST}, on_constant_reward:"
    " warn"
)


def training_stage(method: str, params: str) -> str:
    return f"it: {{train: {method}, {_ASK}, {_PARAMS}, {params}}}}}"


def stages_recipe(*stages: str) -> str:
    return recipe(*stages).replace("stages:\n", f"{_REWARD}stages:\n", 1)


def ramp(size: int) -> float:
    return 0.0 if size <= 2 else -(size - 2) / 4


@pytest.mark.slow
def test_evals_and_generation_count_what_was_written(bench: StageHarness) -> None:
    made = bench.run(stages_recipe(_LOOK, _GENERATE))
    (table,) = (parquet.read_table(path) for path in made["look"].files.glob("completions*.parquet"))
    rows = table.to_pylist()
    assert [row["node:size"] for row in rows] == [row["tokens"] for row in rows]
    assert len({row["node:size"] for row in rows}) > 1
    (table,) = (parquet.read_table(path) for path in made["made"].files.glob("*.parquet"))
    assert {row["score"] for row in table.to_pylist()} <= {ramp(size) for size in range(LONGEST + 1)}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["grpo", "rloo"])
def test_training_counts_all_but_the_end(method: str, bench: StageHarness) -> None:
    made = bench.run(stages_recipe(training_stage(method, "num_prompts: 8, num_generations: 4")))["it"]
    whole, cut = metrics(made, "completions/mean_length"), metrics(made, "completions/clipped_ratio")
    ends = [length - size for length, size in zip(whole, metrics(made, "reward/size"), strict=True)]
    assert all(end > 0 for end in ends)
    # The trainer counts a completion that is truncated at a padding token as ended.
    assert all(end <= 1 - share + 1e-6 for end, share in zip(ends, cut, strict=True))


@pytest.mark.slow
def test_ppo_counts_too(bench: StageHarness) -> None:
    made = bench.run(stages_recipe(training_stage("ppo", "batch_size: 16, num_ppo_epochs: 1")))["it"]
    sizes = metrics(made, "reward/size")
    assert len(sizes) == 3
    assert all(0 < size <= LONGEST for size in sizes)


def test_texts_that_nobody_counted_have_no_score() -> None:
    graph = compiled_graph(
        {"reads": {"completion": "text"}, "nodes": {"size": {"tokens": {}}}, "returns": "size"}
    )
    found = evaluate_graph(graph, {"completion": ["one", "two"]})
    assert found.values["size"] == [None, None]
    assert list(found.reasons["size"]) == ["the number of tokens is not known"] * 2


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ({"tokens": "completion"}, "it counts the tokens of the completion"),
        ({"ramp": {"of": 1, "start": 2, "end": 2}}, "`start` must be less than `end`"),
    ],
)
def test_what_makes_no_sense_is_refused(node: dict[str, object], said: str) -> None:
    found = compile_yaml_reward({"reads": {"completion": "text"}, "returns": node})
    assert said in " ".join(one.message for one in found.diagnostics)


@pytest.mark.parametrize(("before", "after"), [(0.0, -1.0), (-2.0, 3.0)])
def test_a_ramp_goes_evenly_and_no_further(before: float, after: float) -> None:
    node = {"ramp": {"of": "x", "start": 2, "end": 6, "before": before, "after": after}}
    graph = compiled_graph({"reads": {"completion": "text", "x": "number"}, "returns": node})
    found = evaluate_graph(graph, {"completion": [""] * 6, "x": [-9, 2, 3, 4, 6, 99]}).values[graph.returns]
    rise = after - before
    assert found == pytest.approx(
        [before, before, before + rise / 4, before + rise / 2, before + rise, before + rise]
    )
    low, high = sorted((before, after))
    assert graph.range == Interval(low, high)
