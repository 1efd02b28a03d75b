"""Tests the estimates of time and cost: they change in the right direction and match published runs."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from posttrain.compiler.facts.accelerators import find_accelerator
from posttrain.compiler.facts.published_shapes import find_shape
from posttrain.compiler.memory.duration import ExpectedWork, estimate_duration
from posttrain.compiler.memory.workload import FrozenModel, LoraAdapter, RolloutWorkload, Workload

A100, H100 = find_accelerator("A100-80"), find_accelerator("H100")
MODELS = ["Qwen/Qwen2.5-0.5B", "Qwen/Qwen3-30B-A3B", "meta-llama/Llama-3.1-8B", "google/gemma-3-4b-pt"]


@st.composite
def workloads(draw):
    model = find_shape(draw(st.sampled_from(MODELS)))
    assert model is not None
    rollout = draw(st.sampled_from([None, "transformers", "vllm"]))
    return Workload(
        model=model,
        length=2048,
        rows=draw(st.integers(1, 16)),
        accumulation=draw(st.integers(1, 8)),
        gpus=draw(st.sampled_from([1, 2, 8])),
        adapter=draw(st.sampled_from([None, LoraAdapter(), LoraAdapter(quantized=True)])),
        checkpointing=draw(st.booleans()),
        frozen=draw(st.sampled_from([(), (FrozenModel("reference", model),)])),
        rollout=rollout and RolloutWorkload(rollout, 256, 1024, 64),
    )


schedules = st.builds(
    ExpectedWork,
    steps=st.integers(1, 10_000),
    tokens_per_row=st.floats(64, 2048),
    completions_per_step=st.integers(1, 1024),
    tokens_per_completion=st.floats(16, 1024),
)


@given(workloads(), schedules)
def test_shares_add_up_and_the_range_is_one(workload, schedule):
    result = estimate_duration(workload, H100, schedule)
    assert 0 < result.min_seconds <= result.max_seconds
    assert result.min_seconds == sum(s.min_seconds for s in result.shares)
    assert result.max_seconds == sum(s.max_seconds for s in result.shares)
    assert result.trained_tokens == schedule.steps * workload.global_rows * schedule.tokens_per_row
    dollars = result.max_seconds / 3600 * workload.gpus * H100.dollars_per_hour
    assert abs(result.max_dollars - dollars) < 1e-9 + 1e-6 * dollars


@given(workloads(), schedules)
def test_more_steps_take_longer_in_proportion(workload, schedule):
    once = estimate_duration(workload, H100, schedule)
    twice = estimate_duration(workload, H100, schedule._replace(steps=2 * schedule.steps))
    assert abs(twice.max_seconds - 2 * once.max_seconds) < 1e-6 * twice.max_seconds


@given(workloads(), schedules)
def test_a_faster_card_never_takes_longer(workload, schedule):
    assert (
        estimate_duration(workload, H100, schedule).max_seconds
        <= estimate_duration(workload, A100, schedule).max_seconds
    )


@given(workloads(), schedules)
def test_recomputing_costs_time(workload, schedule):
    kept = estimate_duration(replace(workload, checkpointing=False), H100, schedule)
    again = estimate_duration(replace(workload, checkpointing=True), H100, schedule)
    assert again.min_seconds > kept.min_seconds


def test_full_training_lands_on_the_rule_of_thumb():
    """6 P D at 40% of an A100: 8B parameters and a billion tokens take 111 hours on one GPU."""
    model = find_shape("meta-llama/Llama-3.1-8B")
    assert model is not None
    workload = Workload(model=model, length=4096, rows=16)
    result = estimate_duration(workload, A100, ExpectedWork(steps=15_259, tokens_per_row=4096))
    assert abs(result.trained_tokens - 1e9) < 1e6
    assert 90 < result.min_seconds / 3600 < 111 < result.max_seconds / 3600 < 150


def test_a_step_of_group_relative_training_takes_seconds():
    """Qwen3-4B with LoRA on an A100-40, groups of 8, completions of a few hundred tokens: published runs
    report about 18 s per step."""
    model, card = find_shape("Qwen/Qwen3-4B"), find_accelerator("A100-40")
    assert model is not None
    assert card is not None
    rollout = RolloutWorkload("transformers", 200, 600, 8)
    workload = Workload(
        model=model, length=800, rows=4, accumulation=2, adapter=LoraAdapter(), rollout=rollout
    )
    schedule = ExpectedWork(steps=1, tokens_per_row=600, completions_per_step=8, tokens_per_completion=400)
    result = estimate_duration(workload, card, schedule)
    assert result.min_seconds < 18 < result.max_seconds
