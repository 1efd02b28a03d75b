"""Adapters on all linear modules, and rank-stabilized ones: training, merging and keys."""

import json

import pytest
from tests.runtime.methods.stage_harness import StageHarness, compile_plan, recipe

from posttrain.runtime.models.model_loader import load_model
from posttrain.runtime.models.peft_adapters import base_model_dir

_ROWS = "params: {max_steps: 6, learning_rate: 1.0e-2, batch_size: 8, max_length: 64}"


def stage_recipe(adapter: str, family: str = "qwen2") -> str:
    stage = f"it: {{train: sft, model: base, data: sums.train, adapter: {{{adapter}}}, {_ROWS}}}"
    return recipe(stage, "whole: {export: it}", family=family)


@pytest.mark.slow
def test_a_rank_stable_adapter_is_scaled_by_the_root_of_its_rank(bench: StageHarness) -> None:
    made = bench.run(stage_recipe("r: 16, lora_alpha: 8, use_rslora: true"))
    assert json.loads((made["it"].files / "adapter_config.json").read_text())["use_rslora"] is True
    adapted = load_model(made["it"].files)
    assert {one.scaling["default"] for one in adapted.modules() if hasattr(one, "lora_A")} == {2.0}
    merged, base = load_model(made["whole"].files), load_model(base_model_dir(made["it"].files))
    name = "model.layers.0.self_attn.q_proj.weight"
    down, up = (
        next(weight for key, weight in adapted.named_parameters() if f"q_proj.lora_{letter}" in key)
        for letter in "AB"
    )
    moved = merged.get_parameter(name) - base.get_parameter(name)
    assert moved.abs().max() > 0
    assert moved.detach().numpy() == pytest.approx((2.0 * up @ down).detach().numpy(), abs=1e-6)


def test_it_is_in_the_key_only_where_it_is_asked_for() -> None:
    plain, off, on = (
        compile_plan(stage_recipe(f"r: 16{more}")).step("it").key
        for more in ("", ", use_rslora: false", ", use_rslora: true")
    )
    assert plain == off != on


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "modules"),
    [
        ("qwen2", "q_proj k_proj v_proj o_proj gate_proj up_proj down_proj"),
        ("gpt2", "c_attn c_proj c_fc"),
    ],
)
def test_all_is_every_linear_module_but_the_head(family: str, modules: str, bench: StageHarness) -> None:
    made = bench.run(stage_recipe("r: 4, target_modules: all-linear", family))["it"]
    config = json.loads((made.files / "adapter_config.json").read_text())
    assert set(config["target_modules"]) == set(modules.split())
