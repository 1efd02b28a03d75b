"""What passes between training stages: adapters, references, scorers."""

import pytest
from tests.compiler.checks.compiling import codes_of, found_in, stage

LORA = "adapter: {rank: 16, alpha: 32}"


def two(first: str, second: str) -> str:
    """A recipe of two training stages, the second on the first."""
    one = stage("sft", first)
    return one.replace("  check:", f"  then: {{model: sft, data: sums.train, {second}}}\n  check:")


@pytest.mark.parametrize(
    ("second", "codes"),
    [
        ("train: dpo", []),
        ("train: dpo, adapter: {carry: continue}", []),
        ("train: dpo, adapter: {rank: 16}", []),
        ("train: dpo, adapter: {rank: 8}", ["PT0643"]),
        ("train: dpo, adapter: {rank: 8, alpha: 16}", ["PT0643", "PT0643"]),
        ("train: dpo, adapter: {targets: [q_proj]}", ["PT0643"]),
        ("train: dpo, adapter: {rank: 8, carry: merge}", []),
        ("train: dpo, adapter: {kind: full}", []),
        ("train: reward_model, adapter: {rank: 8}", []),  # a scorer's adapter is another
    ],
)
def test_an_adapter_that_goes_on_keeps_its_shape(second: str, codes: list[str]) -> None:
    assert codes_of(two(LORA, second)) == codes


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        (stage("sft", "adapter: {targets: [q_proj, v_proj]}"), []),
        (stage("sft", "adapter: {targets: [model.layers.0.self_attn.q_proj]}"), []),
        (stage("sft", "adapter: {targets: [query_key_value]}"), ["PT0641"]),
        (stage("sft", "adapter: {targets: [q_proj]}", hub=True), []),
        (stage("sft", "adapter: {targets: [c_attn]}", hub=True), ["PT0641"]),
        (stage("sft", "adapter: {}").replace("family: qwen2", "family: gpt2"), []),
        (stage("sft", "adapter: {targets: [c_attn]}").replace("family: qwen2", "family: gpt2"), []),
    ],
)
def test_targets_are_those_of_the_architecture(text: str, codes: list[str]) -> None:
    assert codes_of(text) == codes


def test_a_target_that_is_nearly_right_is_named() -> None:
    (found,) = found_in(stage("sft", "adapter: {targets: [q_prj]}"))
    assert found.help.startswith("did you mean `q_proj`? modules of this model: ")


@pytest.mark.parametrize(
    ("method", "more", "codes"),
    [
        ("dpo", "reference: base", []),
        ("kto", "reference: base", []),
        ("orpo", "reference: base", ["PT0652"]),
        ("reward_model", "reference: base", ["PT0652"]),
        ("grpo", "reward: right, reference: base, params: {steps: 9}", ["PT0652"]),
        ("grpo", "reward: right, reference: base, params: {steps: 9, beta: 0.05}", []),
        (
            "grpo",
            "reward: right, reference: base, adapter: {}, params: {steps: 9, beta: 0.05}",
            ["PT0652"],
        ),
        ("grpo", "reward: right, adapter: {}, params: {steps: 9, beta: 0.05}", []),
        ("dpo", "adapter: {}, params: {reference_every: 4}", ["PT0646"]),
        ("dpo", "params: {reference_every: 4}", []),
    ],
)
def test_references(method: str, more: str, codes: list[str]) -> None:
    assert codes_of(stage(method, more)) == codes


@pytest.mark.parametrize(
    ("method", "dropout", "codes"),
    [("sft", 0.1, []), ("dpo", 0.1, ["PT0645"]), ("dpo", 0.0, []), ("kto", 0.1, ["PT0645"])],
)
def test_dropout_that_is_turned_off(method: str, dropout: float, codes: list[str]) -> None:
    assert codes_of(stage(method, f"adapter: {{dropout: {dropout}}}")) == codes


def test_dropout_that_is_kept() -> None:
    assert codes_of(stage("dpo", "adapter: {dropout: 0.1}, trl: {disable_dropout: false}")) == []


@pytest.mark.parametrize(
    ("second", "codes"),
    [("train: reward_model", []), ("train: dpo", ["PT0653"])],
)
def test_a_scorer_does_not_write(second: str, codes: list[str]) -> None:
    text = two("", second).replace("train: sft", "train: reward_model").replace("eval: sft", "eval: base")
    assert codes_of(text) == codes
