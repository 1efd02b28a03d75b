"""The weights that vLLM receives from a model with an adapter; bitsandbytes supports 4 bits on a CPU too."""

from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from tests.conftest import require_service
from tests.runtime.trl_compat.necessity import obsolete
from transformers import BitsAndBytesConfig, Qwen2Config, Qwen2ForCausalLM
from trl.generation.vllm_generation import VLLMGeneration

from posttrain.runtime.models import model_loader, quantization
from posttrain.runtime.models.peft_adapters import CAUSAL_LM
from posttrain.runtime.trl_compat.vllm_weight_sync import merged_weights

HOW = "install posttrain with its extra `cuda`"
TOKENS = torch.arange(12)[None]


def nf4_arguments(dtype: torch.dtype) -> dict[str, Any]:
    how: dict[str, Any] = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
    how |= {"bnb_4bit_use_double_quant": True, "bnb_4bit_compute_dtype": dtype}
    return {"quantization_config": BitsAndBytesConfig(**how), "device_map": {"": "cpu"}}


def load_qlora(folder: Path, dtype: torch.dtype, targets: list[str]) -> Any:
    """Load a model as QLoRA does, with a nonzero adapter."""
    torch.manual_seed(0)
    sizes: Any = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "vocab_size": 12}
    stored: Any = Qwen2ForCausalLM(Qwen2Config(num_attention_heads=2, num_key_value_heads=2, **sizes))
    for weight in stored.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=0.2)
    stored.to(dtype).save_pretrained(folder)
    loaded: Any = Qwen2ForCausalLM.from_pretrained(folder, dtype=dtype, **nf4_arguments(dtype))
    model: Any = get_peft_model(loaded, LoraConfig(r=4, target_modules=targets))
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.1)
    for module in model.modules():
        if hasattr(
            module, "support_avx512bf16_for_cpu"
        ):  # a CPU kernel that packs the weights differently, and rounds
            module.support_avx512bf16_for_cpu = False
    return model.eval()


@pytest.mark.parametrize(("dtype", "near"), [(torch.float32, 1e-4), (torch.bfloat16, 0.3)])
@pytest.mark.parametrize("targets", [["q_proj", "up_proj"], ["k_proj", "down_proj", "o_proj"]])
def test_it_is_the_model_that_is_trained_and_that_stays_as_it_is(
    dtype: torch.dtype, near: float, targets: list[str], tmp_path: Path
) -> None:
    require_service("bitsandbytes", find_spec("bitsandbytes"), HOW)
    model = load_qlora(tmp_path, dtype, targets)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    found = dict(merged_weights(model))
    assert all(torch.equal(weight, before[name]) for name, weight in model.named_parameters())

    whole: Any = Qwen2ForCausalLM.from_pretrained(tmp_path, dtype=dtype)
    shapes = {name: weight.shape for name, weight in whole.named_parameters()}
    assert {name: weight.shape for name, weight in found.items()} == shapes
    with torch.no_grad():
        trained, base = model(TOKENS).logits.float(), whole(TOKENS).logits.float()
        whole.load_state_dict(found, strict=False)
        handed_on = whole(TOKENS).logits.float()
    apart = (trained - handed_on).abs().max().item()
    assert apart < near
    assert (trained - base).abs().max().item() > 5 * near, "the bits and the adapter make a difference"


def test_what_the_trainer_does_not_lend_vllm_is_not_handed_on(tmp_path: Path) -> None:
    """The weights of the adapter, and the quantization states of 4-bit weights."""
    require_service("bitsandbytes", find_spec("bitsandbytes"), HOW)
    model = load_qlora(tmp_path, torch.float32, ["q_proj"])
    names = {name for name, _ in Qwen2ForCausalLM.from_pretrained(tmp_path).named_parameters()}
    assert {name for name, _ in merged_weights(model)} == names


def test_weights_merged_before_they_are_quantized_name_a_folder_that_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """vLLM loads the folder in the model's name_or_path."""
    require_service("bitsandbytes", find_spec("bitsandbytes"), HOW)
    load_qlora(tmp_path / "base", torch.float32, ["q_proj"]).save_pretrained(tmp_path / "adapter")
    whole = Qwen2ForCausalLM.from_pretrained(tmp_path / "base")
    adapted = PeftModel.from_pretrained(whole, tmp_path / "adapter")
    monkeypatch.setattr(model_loader, "load_model", lambda _: adapted)
    monkeypatch.setattr(quantization, "quantization_arguments", lambda _: nf4_arguments(torch.float32))
    made = model_loader._load_merged(tmp_path / "adapter", CAUSAL_LM, "nf4")
    assert made.is_loaded_in_4bit
    assert Path(made.name_or_path) == tmp_path / "base"


def adapted_model(dtype: torch.dtype, **options: Any) -> tuple[Any, set[str]]:
    """A model with a nonzero adapter, and the names of the weights without it."""
    torch.manual_seed(0)
    sizes: Any = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "vocab_size": 12}
    base: Any = Qwen2ForCausalLM(Qwen2Config(num_attention_heads=2, num_key_value_heads=2, **sizes))
    base = base.to(dtype)
    names = {name for name, _ in base.named_parameters()}
    options = options or {"modules_to_save": ["lm_head"]}
    config = LoraConfig(r=4, target_modules=["q_proj", "up_proj"], **options)
    model: Any = get_peft_model(base, config)
    for name, weight in model.named_parameters():
        if "lora_B" in name or "trainable_tokens_delta" in name:
            torch.nn.init.normal_(weight)
    return model, names


def test_trl_changes_the_weights_below_the_adapter() -> None:
    model, _ = adapted_model(torch.bfloat16)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    engine: Any = object.__new__(VLLMGeneration)
    engine.model = model
    engine._dist = SimpleNamespace(is_fsdp=False, gather_params=lambda _: nullcontext())
    list(engine._iter_named_params())
    changed = [name for name, weight in model.named_parameters() if not torch.equal(weight, before[name])]
    assert changed, obsolete("vllm_weight_sync")
    assert all(".base_layer." in name for name in changed)


_TOKEN_ROWS = {"embed_tokens": [3, 5], "lm_head": [3, 5]}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("options", [{}, {"trainable_token_indices": _TOKEN_ROWS}])
def test_weights_under_an_adapter_are_handed_on_merged_and_stay_as_they_are(
    dtype: torch.dtype, options: dict[str, Any]
) -> None:
    model, names = adapted_model(dtype, **options)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    found = dict(merged_weights(model))
    assert found.keys() == names
    assert all(torch.equal(weight, before[name]) for name, weight in model.named_parameters())
    whole = model.merge_and_unload()
    assert all(torch.equal(weight, found[name]) for name, weight in whole.named_parameters())
