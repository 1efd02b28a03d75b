"""Tests adapter settings that exclude each other, and names and patterns that select nothing."""

import pytest
from tests.compiler.checks.stage_compilation import codes_of, diagnostics_of, stage_recipe

_REWARDED = "reward: right, params: {max_steps: 9, beta: 0.05}"


@pytest.mark.parametrize(
    ("method", "more", "codes"),
    [
        ("sft", "adapter: {init_lora_weights: pissa}", []),
        ("sft", "adapter: {init_lora_weights: pissa_niter_8, use_dora: true, loraplus_lr_ratio: 16}", []),
        ("dpo", "adapter: {init_lora_weights: pissa}", ["PT0693"]),
        ("dpo", "adapter: {init_lora_weights: olora}, reference: base", []),
        ("dpo", "adapter: {bias: all}", ["PT0693"]),
        ("dpo", "adapter: {init_lora_weights: gaussian, use_dora: true}", []),
        ("grpo", f"adapter: {{init_lora_weights: pissa}}, {_REWARDED}", ["PT0693"]),
        ("grpo", f"adapter: {{init_lora_weights: pissa}}, {_REWARDED.replace('0.05', '0.0')}", []),
        ("grpo", f"adapter: {{type: oft, oft_block_size: 8}}, {_REWARDED}", []),
        ("sft", "adapter: {modules_to_save: [lm_head]}", ["PT0693"]),  # the embeddings are tied
        ("sft", "adapter: {trainable_token_indices: [3]}", []),
    ],
)
def test_settings_that_exclude_each_other(method: str, more: str, codes: list[str]) -> None:
    found = codes_of(stage_recipe(method, more))
    assert [code for code in found if code in ("PT0693", "PT0694")] == codes


@pytest.mark.parametrize("init", ["pissa", "olora"])
def test_quantized_weights_keep_their_values(init: str) -> None:
    text = stage_recipe("sft", f"adapter: {{type: qlora, init_lora_weights: {init}}}")
    messages = [d.message for d in diagnostics_of(text) if d.code == "PT0693"]
    assert messages == [f"`{init}` changes the base weights, which are quantized"]


@pytest.mark.parametrize(
    ("adapter", "message"),
    [
        ("type: full, trainable: [layers.0]", "`layers.0` matches no parameter of this model"),
        ("type: full, freeze: [lm_head.*]", "`lm_head.*` matches no parameter of this model"),
        ("type: full, freeze: ['*']", "`trainable` and `freeze` leave no parameter to train"),
        ("rank_pattern: {gate: 8}", "`gate` matches none of the target modules"),
        ("alpha_pattern: {up_proj: 8}", "`up_proj` matches none of the target modules"),
        ("layers_to_transform: [99]", "the model has no layer 99"),
        ("modules_to_save: [nrm]", "the model has no module `nrm`"),
        ("trainable_token_indices: added", "the model's `tokenizer` adds no tokens"),
        ("type: oft, oft_block_size: 7", "blocks of 7 do not divide"),
    ],
)
def test_patterns_that_select_nothing(adapter: str, message: str) -> None:
    found = [d.message for d in diagnostics_of(stage_recipe("sft", f"adapter: {{{adapter}}}"))]
    assert any(each.startswith(message) for each in found), found


@pytest.mark.parametrize(
    "adapter",
    [
        "type: full, trainable: ['model.layers.0.*', model.norm.weight]",
        "type: full, freeze: ['model.embed_tokens.*']",
        "rank_pattern: {q_proj: 8}, alpha_pattern: {'0.self_attn.*': 16}, layers_to_transform: [0]",
        "modules_to_save: [norm]",
    ],
)
def test_patterns_that_select_something(adapter: str) -> None:
    assert codes_of(stage_recipe("sft", f"adapter: {{{adapter}}}")) == []


@pytest.mark.parametrize("type_", ["prompt_tuning", "prefix_tuning", "p_tuning"])
def test_learned_prompts_are_refused_with_the_reason(type_: str) -> None:
    (found,) = diagnostics_of(stage_recipe("sft", f"adapter: {{type: {type_}}}"))
    assert found.message.startswith(f"`{type_}` is not supported: a learned prompt cannot be merged")


@pytest.mark.parametrize("init", ["eva", "corda", "lora_ga", "loftq", "mica"])
def test_unsupported_initializations_are_refused_by_name(init: str) -> None:
    (found,) = diagnostics_of(stage_recipe("sft", f"adapter: {{init_lora_weights: {init}}}"))
    assert found.message.startswith(f"`{init}` is not supported: it ")
