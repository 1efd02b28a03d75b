"""Models of which a part would be lost are reported before the run, as far as they are known."""

import json
from typing import Any

import pytest

from posttrain.compiler.checks.training_examples import MINIMAL_RECIPE
from posttrain.compiler.pipeline import compile_recipe
from posttrain.compiler.text.compile_request import CompileRequest, SourceFile
from posttrain.runtime.catalog import CATALOG
from posttrain.spec.diagnostic import Diagnostic

INIT = "    init: {model_type: qwen2, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4}\n"
TOKENIZER = "    tokenizer: {init: characters}\n"
UNSUPPORTED: dict[str, tuple[dict[str, Any], str]] = {
    "vision": ({"model_type": "gemma3", "vision_config": {"hidden_size": 8}}, "has a vision tower, which"),
    "vision and audio": (
        {"model_type": "gemma3n", "vision_config": {}, "audio_config": {}},
        "has a vision tower and an audio encoder, which would be lost",
    ),
    "images by token": ({"model_type": "fuyu", "image_token_id": 71011}, "has inputs other than text"),
    "llava of custom code": (
        {"model_type": "llama", "mm_vision_tower": "clip"},
        "has inputs other than text",
    ),
    "encoder-decoder": ({"model_type": "bart", "is_encoder_decoder": True}, "is an encoder-decoder model"),
    "t5": (
        {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"]},
        "is an encoder-decoder model",
    ),
    "bert": (
        {"model_type": "bert", "architectures": ["BertForMaskedLM"]},
        "is a masked language model, which does not generate (BertForMaskedLM)",
    ),
    "tokens": (
        {"model_type": "qwen2", "architectures": ["Qwen2ForTokenClassification"]},
        "is a classifier of",
    ),
    "embedding": (
        {"model_type": "qwen3", "architectures": ["Qwen3Model"]},
        "is a model without a language-modeling head",
    ),
    "custom code": ({"auto_map": {"AutoModel": "modeling.Mine"}}, "requires custom code"),
}
SUPPORTED: dict[str, dict[str, Any]] = {
    "nothing known": {},
    "causal": {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]},
    "old name": {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]},
    "scorer": {"model_type": "qwen2", "architectures": ["Qwen2ForSequenceClassification"]},
    "known architecture with code": {"model_type": "phi3", "auto_map": {"AutoModelForCausalLM": "m.Phi3"}},
    "nested parts of the text model": {"model_type": "dbrx", "attn_config": {"a": 1}, "ffn_config": {"b": 1}},
}


def diagnostics_of(origin: str, files: dict[str, bytes], text: str = MINIMAL_RECIPE) -> list[Diagnostic]:
    text = text.replace(INIT, f"    from: {origin}\n").replace(TOKENIZER, "    chat_template: chat.jinja\n")
    files = {"chat.jinja": b"{{ messages }}", **files}
    request = CompileRequest(source=SourceFile("recipe.yaml", text.encode()), catalog=CATALOG, read=files.get)
    found = compile_recipe(request).diagnostics
    return [one for one in found if one.code in ("PT0820", "PT0821")]


def folder(config: dict[str, Any], **more: bytes) -> dict[str, bytes]:
    return {"mine/config.json": json.dumps(config).encode(), "mine/model.safetensors": b"", **more}


@pytest.mark.parametrize("key", UNSUPPORTED)
def test_a_model_with_a_part_that_would_be_lost_is_an_error(key: str) -> None:
    config, reason = UNSUPPORTED[key]
    (found,) = diagnostics_of("./mine", folder(config))
    assert found.severity == "error"
    assert found.message.startswith(f"`./mine` {reason}")
    assert (found.span.line, bool(found.help)) == (5, True)


@pytest.mark.parametrize("key", SUPPORTED)
def test_a_language_model_is_accepted(key: str) -> None:
    assert diagnostics_of("./mine", folder(SUPPORTED[key])) == []


def test_an_adapter_next_to_the_weights_is_an_error() -> None:
    files = folder({"model_type": "qwen2"}) | {"mine/adapter_config.json": b"{}"}
    (found,) = diagnostics_of("./mine", files)
    assert "an adapter of PEFT" in found.message


@pytest.mark.parametrize(
    ("name", "count"), [("google/gemma-3-4b-it", 1), ("google/gemma-3-1b-it", 0), ("copy/gemma-3-4b-it", 0)]
)
def test_a_published_model_is_known_by_its_name(name: str, count: int) -> None:
    assert len(diagnostics_of(name, {})) == count


@pytest.mark.parametrize("method", ["gptq", "awq", "fp8", "compressed-tensors"])
def test_training_a_quantized_checkpoint_is_an_error(method: str) -> None:
    config = {"model_type": "qwen2", "quantization_config": {"quant_method": method}}
    (found,) = diagnostics_of("./mine", folder(config))
    assert (found.code, f"quantized ({method})" in found.message) == ("PT0821", True)


def test_evaluating_a_quantized_checkpoint_is_not() -> None:
    config = {"model_type": "qwen2", "quantization_config": {"quant_method": "awq"}}
    lines = [line for line in MINIMAL_RECIPE.splitlines() if not line.startswith("  sft:")]
    text = "\n".join(lines).replace("eval: sft", "eval: base")
    assert diagnostics_of("./mine", folder(config), text) == []
