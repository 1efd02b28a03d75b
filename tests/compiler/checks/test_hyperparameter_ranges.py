"""Tests the warnings about unusual hyperparameters, and that usual values raise none."""

import pytest
from tests.compiler.checks.stage_compilation import codes_of, diagnostics_of, stage_recipe

from posttrain.compiler.checks.training_examples import published_example

REWARDED = "reward: right, params: {max_steps: 9"
ROWS = ("sft", "dpo", "ipo", "kto", "reward_model", "orpo", "cpo", "simpo")


@pytest.mark.parametrize("method", ROWS)
@pytest.mark.parametrize("adapter", ["", "adapter: {}"])
@pytest.mark.parametrize("hub", [True, False])
def test_the_defaults_are_good_practice(method: str, adapter: str, hub: bool) -> None:
    assert codes_of(stage_recipe(method, adapter, hub=hub)) == []


@pytest.mark.parametrize("method", ["grpo", "rloo"])
@pytest.mark.parametrize("hub", [True, False])
def test_the_defaults_of_reinforcement_learning_are_too(method: str, hub: bool) -> None:
    assert codes_of(stage_recipe(method, REWARDED + "}", hub=hub)) == []


@pytest.mark.parametrize(
    ("method", "rate", "judged"),
    [
        ("sft", "2.0e-5", False),
        ("sft", "1.0e-3", False),  # half a billion parameters
        ("sft", "2.0e-2", True),
        ("dpo", "5.0e-7", False),
        ("dpo", "1.0e-3", True),
        ("dpo", "1.0e-9", True),
        ("orpo", "8.0e-6", False),
        ("simpo", "1.0e-6", False),
    ],
)
def test_a_rate_for_all_weights(method: str, rate: str, judged: bool) -> None:
    codes = codes_of(stage_recipe(method, f"params: {{learning_rate: {rate}}}", hub=True))
    assert codes == (["PT0631"] if judged else [])


@pytest.mark.parametrize(
    ("rate", "judged"), [("2.0e-4", False), ("2.0e-5", False), ("1.0e-6", True), ("0.5", True)]
)
def test_a_rate_for_an_adapter(rate: str, judged: bool) -> None:
    codes = codes_of(stage_recipe("sft", f"adapter: {{}}, params: {{learning_rate: {rate}}}", hub=True))
    assert codes == (["PT0631"] if judged else [])


def test_the_size_of_the_model_counts() -> None:
    text = stage_recipe("sft", "params: {learning_rate: 1.0e-3}", hub=True)
    large = text.replace("Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen2.5-7B-Instruct")
    assert codes_of(text) == []
    judged = [d for d in diagnostics_of(large) if d.code == "PT0631"]
    assert "7.6B parameters" in judged[0].message
    assert judged[0].help == "2e-05 is a common value"


@pytest.mark.parametrize("rate", ["1.0e-2", "0.1", "1.0e-9"])
def test_a_model_from_nothing_is_not_judged_by_its_rate(rate: str) -> None:
    assert codes_of(stage_recipe("sft", f"params: {{learning_rate: {rate}}}")) == []
    assert codes_of(stage_recipe("dpo", f"params: {{learning_rate: {rate}, batch_size: 2}}")) == []


def test_a_rate_is_judged_along_the_line_of_stages() -> None:
    text = published_example(
        (
            "  check:",
            "  again: {train: sft, model: sft, data: sums.train, params: {learning_rate: 0.9}}\n  check:",
        )
    )
    assert codes_of(text) == ["PT0631"]


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("dpo", "beta: 0.3", None),
        ("dpo", "beta: 0.001", "PT0632"),
        ("simpo", "beta: 0.1", "PT0632"),
        ("simpo", "beta: 2.5", None),
        ("dpo", "batch_size: 4", "PT0633"),
        ("dpo", "batch_size: 16", None),
        ("sft", "batch_size: 2", None),
    ],
)
def test_amounts(method: str, params: str, code: str | None) -> None:
    assert codes_of(stage_recipe(method, f"params: {{{params}}}", hub=True)) == ([code] if code else [])


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("grpo", "num_generations: 2", "PT0634"),
        ("grpo", "num_generations: 4", None),
        ("rloo", "num_generations: 2", None),
        ("grpo", "temperature: 0.2", "PT0635"),
        ("grpo", "temperature: 0.7", None),
        ("grpo", "temperature: 0.0", "PT0204"),
        ("grpo", "beta: 2", "PT0632"),
        ("grpo", "max_completion_length: 512", "PT0638"),
        ("grpo", "optimizer_steps_per_generation: 2, num_iterations: 2, save_steps: 6", "PT0639"),
        ("grpo", "optimizer_steps_per_generation: 2, num_iterations: 2, save_steps: 8", None),
        ("rloo", "optimizer_steps_per_generation: 3, save_steps: 4", "PT0639"),
    ],
)
def test_reinforcement_learning(method: str, params: str, code: str | None) -> None:
    assert codes_of(stage_recipe(method, f"{REWARDED}, {params}}}")) == ([code] if code else [])


def test_a_length_that_the_recipe_does_not_give_is_not_judged() -> None:
    assert codes_of(stage_recipe("sft")) == []
    assert codes_of(stage_recipe("sft", "params: {max_length: 1024}")) == ["PT0637"]


@pytest.mark.parametrize(
    "params",
    [
        "loss_type: [sigmoid, nonsense]",
        "loss_type: []",
        "loss_type: [sigmoid, sft], loss_weights: [1.0]",
        "loss_type: exo_pair",
        "label_smoothing: 0.1",
        "loss_type: aot, batch_size: 8, micro_batch_size: 4",
    ],
)
def test_what_dpo_cannot_compute_is_refused(params: str) -> None:
    found = diagnostics_of(stage_recipe("dpo", f"params: {{{params}}}"))
    assert found
    assert {d.severity for d in found} == {"error"}


@pytest.mark.parametrize(
    "params",
    [
        "loss_type: nonsense",
        "loss_type: luspo",
        "loss_type: vespo, importance_sampling_level: sequence",
        "importance_sampling_level: sequence",
        "ref_model_sync_steps: 4",
        "loss_type: bnpo, micro_batch_size: 4",
    ],
)
def test_what_grpo_cannot_compute_is_refused(params: str) -> None:
    found = diagnostics_of(stage_recipe("grpo", f"{REWARDED}, {params}}}"))
    assert found
    assert {d.severity for d in found} == {"error"}


def test_packing_takes_steps_or_epochs() -> None:
    assert codes_of(stage_recipe("sft", "params: {packing: true, max_steps: 10}")) == []
    assert codes_of(stage_recipe("sft", "params: {packing: true, epochs: 2}")) == []


@pytest.mark.parametrize(
    ("method", "params", "code", "value"),
    [
        ("sft", "batch_size: 4, micro_batch_size: 3", "PT0604", "3"),
        ("sft", "lr_scheduler_type: cosine, decay_ratio: 0.25", "PT0204", "0.25"),
        ("dpo", "loss_type: [sigmoid, sft], loss_weights: [1.0]", "PT0204", "[1.0]"),
        ("sft", "warmup_steps: 7.5", "PT0204", "7.5"),
    ],
)
def test_an_error_about_several_values_is_at_a_key_that_it_names(
    method: str, params: str, code: str, value: str
) -> None:
    text = stage_recipe(method, f"params: {{{params}}}")
    (found,) = (one for one in diagnostics_of(text) if one.code == code)
    line = text.splitlines()[found.span.line - 1]
    assert line[found.span.column - 1 :].startswith(value)
