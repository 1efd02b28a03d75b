"""A value that another value disables is an error: it would be ignored without a word."""

import pytest

from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_MODEL, minimal_recipe
from posttrain.compiler.pipeline import compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG

_SFT = "{train: sft, model: base, data: sums.train, params: {epochs: 1, batch_size: 4}}"
_ROLLOUTS = {
    "grpo": "max_steps: 4, num_prompts: 4, num_generations: 4, max_completion_length: 8",
    "ppo": "max_steps: 4, batch_size: 4, max_completion_length: 8",
}


def errors(*changes: tuple[str, str]) -> list[str]:
    source = SourceFile("recipe.yaml", minimal_recipe(*changes).encode())
    result = compile_recipe(CompileRequest(source=source, catalog=CATALOG, read=lambda _: None))
    return [one.message for one in result.diagnostics if one.severity == "error"]


def rollout_stage(method: str, params: str) -> tuple[str, str]:
    stage = f"train: {method}, model: base, data: sums.train, reward: right"
    return _SFT, f"{{{stage}, params: {{{_ROLLOUTS[method]}, {params}}}}}"


@pytest.mark.parametrize(
    ("method", "params", "name", "reason"),
    [
        ("grpo", "loss_type: cispo, epsilon: 0.1", "epsilon", "with the loss `cispo`"),
        ("grpo", "loss_type: cispo, delta: 3", "delta", "with the loss `cispo`"),
        ("grpo", "loss_type: sapo, epsilon_high: 0.3", "epsilon_high", "with the loss `sapo`"),
        ("grpo", "loss_type: vespo, delta: 3", "delta", "with the loss `vespo`"),
        (
            "grpo",
            "beta: 0.1, ref_model_mixup_alpha: 0.5",
            "ref_model_mixup_alpha",
            "without ref_model_sync_steps",
        ),
        ("ppo", "kl_horizon: 500", "kl_horizon", "without kl_target"),
        ("ppo", "kl_coef: 0, kl_estimator: k3", "kl_estimator", "with kl_coef 0"),
    ],
)
def test_parameters_of_methods(method: str, params: str, name: str, reason: str) -> None:
    (message,) = errors(rollout_stage(method, params))
    assert message.startswith(f"{name} has no effect {reason}")


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("grpo", "loss_type: cispo, epsilon_high: 4"),
        ("grpo", "loss_type: dapo, epsilon: 0.1, epsilon_high: 0.3, delta: 3"),
        ("grpo", "beta: 0.1, ref_model_sync_steps: 2, ref_model_mixup_alpha: 0.5"),
        ("grpo", "loss_type: sapo, epsilon: 0.2"),
        ("ppo", "kl_target: 0.1, kl_horizon: 500, kl_estimator: k3"),
    ],
)
def test_parameters_that_have_an_effect_or_are_defaults(method: str, params: str) -> None:
    assert errors(rollout_stage(method, params)) == []


@pytest.mark.parametrize("option", ["r: 8", "lora_alpha: 8", "use_rslora: true", "target_modules: [q_proj]"])
def test_options_of_lora_where_all_weights_are_trained(option: str) -> None:
    (message,) = errors((_SFT, f"{_SFT[:-1]}, adapter: {{type: full, {option}}}}}"))
    name = option.partition(":")[0]
    assert message.startswith(
        f"{name} has no effect with `type: full`, which trains all weights; it belongs to"
    )


@pytest.mark.parametrize(
    ("type_", "option", "types"),
    [
        ("ia3", "r: 8", "lora, qlora and vera"),
        ("vera", "use_dora: true", "lora and qlora"),
        ("lora", "feedforward_modules: [down_proj]", "ia3"),
        ("lora", "freeze: ['*norm*']", "full"),
        ("ia3", "layers_to_transform: [0]", "lora, qlora, oft and vera"),
        ("qlora", "oft_block_size: 8", "oft"),
    ],
)
def test_options_of_another_adapter_type(type_: str, option: str, types: str) -> None:
    (message,) = errors((_SFT, f"{_SFT[:-1]}, adapter: {{type: {type_}, {option}}}}}"))
    assert message == f"{option.partition(':')[0]} has no effect with `type: {type_}`; it belongs to {types}"


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            MINIMAL_MODEL.replace("{init: characters}", "{init: characters, revision: main}"),
            "revision has no effect without `from`",
        ),
        (f"{MINIMAL_MODEL}    revision: main\n", "revision has no effect without `from`"),
        (
            MINIMAL_MODEL.replace("{init: characters}", "{from: openai-community/gpt2, alphabet: abc}"),
            "alphabet has no effect without `init`",
        ),
    ],
)
def test_options_of_another_origin(model: str, message: str) -> None:
    assert errors((MINIMAL_MODEL, model)) == [message]
