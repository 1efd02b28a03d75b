"""Adapters as products: files, continued training, reference models and export."""

import json
import shutil
from pathlib import Path

import pytest
from tests.runtime.methods.stage_harness import StageHarness, compile_plan, metrics, recipe

from posttrain.runtime.errors import StepError
from posttrain.runtime.models import peft_adapters, peft_config, quantization
from posttrain.runtime.models.merge_check import check_merged_logits, probe_tokens
from posttrain.runtime.models.model_loader import load_model, load_tokenizer
from posttrain.runtime.store.products import Product
from posttrain.spec.step_params.adapter_options import AdapterOptions

pytestmark = pytest.mark.slow

_SUMS = "data: sums.train"
_ROWS = f"{_SUMS}, params: {{max_steps: 6, learning_rate: 1.0e-2, batch_size: 8, max_length: 64}}"
_LORA = (
    f"lora: {{train: sft, model: base, {_SUMS}, adapter: {{r: 4, lora_alpha: 8}},"
    " params: {max_steps: 20, learning_rate: 3.0e-2, batch_size: 16}}"
)
_GRPO = (
    f"train: grpo, model: lora, {_SUMS}, reward: solution, params: {{max_steps: 4, num_prompts: 4,"
    " num_generations: 4, learning_rate: 1.0e-2, max_completion_length: 6, beta: 0.1"
)


def names(product: Product) -> set[str]:
    return {path.name for path in product.files.iterdir()}


def logits(folder: Path):
    import torch

    model = load_model(folder).eval()
    with torch.inference_mode():
        return model(input_ids=probe_tokens(len(load_tokenizer(folder)))).logits


@pytest.mark.parametrize("family", ["qwen2", "gpt2", "gpt_neox"])
def test_an_adapter_learns_and_holds_nothing_but_itself(family: str, bench: StageHarness) -> None:
    made = bench.run(recipe(_LORA, family=family))
    product, base = made["lora"], made["models.base"]
    losses = metrics(product, "loss")
    assert losses[-1] < losses[0] - 0.2
    assert "model.safetensors" not in names(product)
    assert {"adapter_model.safetensors", "adapter_config.json", "tokenizer.json"} <= names(product)
    assert "chat_template.jinja" in names(product)
    assert peft_adapters.base_model_dir(product.files) == base.files
    assert product.facts["trained_parameters"] < product.facts["parameters"] / 10


def test_a_product_names_no_path_of_the_machine(bench: StageHarness) -> None:
    product = bench.run(recipe(_LORA))["lora"]
    for path in product.files.iterdir():
        assert str(bench.root).encode() not in path.read_bytes(), path.name


@pytest.mark.parametrize("method", ["dpo", "kto", "ipo"])
@pytest.mark.parametrize("carry", ["continue", "merge"])
def test_preferences_begin_where_the_adapter_ended(method: str, carry: str, bench: StageHarness) -> None:
    """The reference is the starting model, so the first margin is zero and later ones are not."""
    made = bench.run(
        recipe(
            _LORA, f"it: {{train: {method}, model: lora, adapter: {{existing_adapter: {carry}}}, {_ROWS}}}"
        )
    )
    margins = metrics(made["it"], "preference/margin")
    assert margins[0] == pytest.approx(0.0, abs=1e-6)
    assert margins[-1] > 0.03
    stands_on = made["models.base"] if carry == "continue" else made["lora"]
    assert peft_adapters.base_model_dir(made["it"].files) == stands_on.files


@pytest.mark.parametrize("carry", ["continue", "merge"])
def test_reinforcement_begins_where_the_adapter_ended(carry: str, bench: StageHarness) -> None:
    made = bench.run(recipe(_LORA, f"it: {{{_GRPO}}}, adapter: {{existing_adapter: {carry}}}}}"))
    kl = metrics(made["it"], "kl")
    assert kl[0] == pytest.approx(0.0, abs=1e-6)
    assert kl[-1] > 1e-5


def test_all_weights_go_on_from_an_adapter(bench: StageHarness) -> None:
    made = bench.run(recipe(_LORA, f"it: {{{_GRPO}}}, adapter: {{type: full}}}}"))
    assert "model.safetensors" in names(made["it"])
    assert metrics(made["it"], "kl")[0] == pytest.approx(0.0, abs=1e-6)


def test_a_reference_may_be_named(bench: StageHarness) -> None:
    made = bench.run(
        recipe(
            _LORA,
            f"first: {{train: dpo, model: lora, {_ROWS}}}",
            f"it: {{train: dpo, model: first, reference: lora, {_ROWS}}}",
        )
    )
    last = metrics(made["first"], "preference/margin")[-1]
    assert metrics(made["it"], "preference/margin")[0] == pytest.approx(last, abs=0.1)


def test_a_scorer_is_an_adapter_too_and_goes_on(bench: StageHarness) -> None:
    scorer = f"{{train: reward_model, model: %s, adapter: {{r: 4}}, {_ROWS}}}"
    made = bench.run(recipe(_LORA, f"one: {scorer % 'lora'}", f"it: {scorer % 'one'}"))
    one, two = (metrics(made[name], "preference/margin") for name in ("one", "it"))
    assert two[0] == pytest.approx(one[-1], abs=0.3)
    assert logits(made["it"].files).shape == (4, 1)


def test_a_chain_of_merged_adapters_is_read_back(bench: StageHarness) -> None:
    merge = "adapter: {r: 2, existing_adapter: merge}"
    made = bench.run(
        recipe(
            _LORA,
            f"two: {{train: dpo, model: lora, {merge}, {_ROWS}}}",
            f"three: {{train: dpo, model: two, {merge}, {_ROWS}}}",
            "whole: {export: three}",
        )
    )
    assert peft_adapters.base_model_dir(made["three"].files) == made["two"].files
    difference = (logits(made["three"].files) - logits(made["whole"].files)).abs().max()
    assert difference < 1e-4
    assert made["whole"].facts["merge_difference"] < 1e-5


def test_an_adapter_is_measured_and_writes(bench: StageHarness) -> None:
    sampling = "sampling: {max_tokens: 6}"
    made = bench.run(
        recipe(
            _LORA,
            "measured: {eval: lora, data: sums.test, reward: solution, metrics: {f: format},"
            f" {sampling}}}",
            f"written: {{generate: lora, data: sums.test, {sampling}}}",
        )
    )
    assert made["measured"].facts["completions"] == 17
    assert made["written"].facts["rows.all"] == 17


def test_an_adapter_is_exported_with_where_its_base_is(bench: StageHarness) -> None:
    made = bench.run(recipe(_LORA, "it: {export: lora, merge: false}"))
    note = json.loads((made["it"].files / "base.json").read_text())
    assert note["key"] == made["models.base"].key
    assert bool((logits(made["it"].files) == logits(made["lora"].files)).all())


def test_a_merge_that_changes_the_answers_fails(bench: StageHarness) -> None:
    made = bench.run(recipe(_LORA))
    expected, other = logits(made["lora"].files), logits(made["models.base"].files)
    assert check_merged_logits(expected, expected.clone(), "torch.float32") == 0
    with pytest.raises(StepError, match="differ from the adapter's"):
        check_merged_logits(expected, other, "torch.float32")
    with pytest.raises(StepError, match="differ from the adapter's"):
        check_merged_logits(expected, expected * float("nan"), "torch.bfloat16")


def test_an_adapter_in_half_precision_is_merged(bench: StageHarness) -> None:
    text = recipe(_LORA, "it: {export: lora}").replace("tokenizer:", "dtype: bfloat16\n    tokenizer:", 1)
    made = bench.run(text)
    assert 0 < made["it"].facts["merge_difference"] < 5e-2


def test_a_base_that_is_gone_is_told(bench: StageHarness, tmp_path: Path) -> None:
    made = bench.run(recipe(_LORA))
    moved = tmp_path / "store" / made["lora"].key
    shutil.copytree(made["lora"].folder, moved)
    with pytest.raises(StepError, match="is missing from the store"):
        load_model(moved / "files")


@pytest.mark.parametrize(
    ("gpu", "message"), [(False, "needs a CUDA GPU"), (True, "needs bitsandbytes, which is not installed")]
)
def test_four_bits_need_a_gpu_and_their_library(
    gpu: bool, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: gpu)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(StepError, match=message):
        quantization.quantization_arguments("nf4")
    assert quantization.quantization_arguments("none") == {}


def test_a_stage_in_four_bits_says_so_before_its_first_step(bench: StageHarness) -> None:
    plan = compile_plan(recipe(f"it: {{train: sft, model: base, adapter: {{type: qlora}}, {_ROWS}}}"))
    step = plan.step("it")
    bench.prepare_step(plan, step)
    assert quantization.quantization_type(AdapterOptions(**step.params["adapter"]), bench.home.root) == "nf4"
    if bench.wait(step) != 0:  # a machine with a GPU trains it successfully
        assert "nf4 quantization needs" in bench.failure(step)["message"]


def test_unknown_modules_are_told_with_those_that_exist(bench: StageHarness) -> None:
    model = load_model(bench.run(recipe())["models.base"].files)
    assert peft_config.resolve_target_modules("auto", model) == ["q_proj", "k_proj", "v_proj", "o_proj"]
    with pytest.raises(StepError, match="no linear modules named c_attn") as raised:
        peft_config.resolve_target_modules(["c_attn", "q_proj"], model)
    assert "gate_proj" in raised.value.advice
    assert "lm_head" not in raised.value.advice
    model.config.model_type = "unheard_of"
    with pytest.raises(StepError, match="does not support the architecture"):
        peft_config.resolve_target_modules("auto", model)
