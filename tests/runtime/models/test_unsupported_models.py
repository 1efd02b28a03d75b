"""Checkpoints of which a part would be lost are refused before the first step."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.runtime.ppo.tiny_models import tiny_model

from posttrain.runtime.errors import StepError
from posttrain.runtime.models.model_loader import load_for_training, load_model
from posttrain.runtime.verbs.model import check_published, run
from posttrain.spec.architectures.unsupported_checkpoints import checkpoint_problem
from posttrain.spec.step_params.artifact_params import ModelStepParams

TEXT: dict[str, Any] = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "vocab_size": 23,
}
SEES: dict[str, Any] = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
}


def vision_model(folder: Path) -> None:
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration

    sees = {**SEES, "image_size": 28, "patch_size": 14}
    config = Gemma3Config(text_config=TEXT, vision_config=sees, mm_tokens_per_image=4)
    Gemma3ForConditionalGeneration(config).save_pretrained(folder)


def encoder_decoder(folder: Path) -> None:
    from transformers import T5Config, T5ForConditionalGeneration

    T5ForConditionalGeneration(
        T5Config(d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2, vocab_size=23)
    ).save_pretrained(folder)
    change_config(folder, is_encoder_decoder=None, architectures=None)


def masked_model(folder: Path) -> None:
    from transformers import BertConfig, BertForMaskedLM

    BertForMaskedLM(BertConfig(**SEES, vocab_size=23)).save_pretrained(folder)


def custom_code(folder: Path) -> None:
    tiny_model().save_pretrained(folder)
    change_config(folder, model_type="mine", auto_map={"AutoModelForCausalLM": "modeling_mine.Mine"})


def adapter(folder: Path) -> None:
    tiny_model().save_pretrained(folder)
    (folder / "adapter_config.json").write_text("{}")


def change_config(folder: Path, **changed: Any) -> None:
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), **changed}
    path.write_text(json.dumps({name: value for name, value in config.items() if value is not None}))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (vision_model, "`org/it` has a vision tower, which would be lost"),
        (encoder_decoder, "`org/it` is an encoder-decoder model"),
        (masked_model, "`org/it` is a masked language model"),
        (custom_code, "not one of a known architecture"),
        (adapter, "an adapter of PEFT"),
    ],
)
def test_a_downloaded_checkpoint_is_refused(build: Any, message: str, tmp_path: Path) -> None:
    build(tmp_path)
    with pytest.raises(StepError, match=message) as caught:
        check_published(tmp_path, "org/it")
    assert caught.value.advice


def test_every_causal_architecture_of_transformers_is_judged_by_its_parts() -> None:
    from transformers import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    parts = ("vision_config", "audio_config", "vq_config", "audio_encoder_config", "audio_encoder")
    seen = 0
    for model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        kind = CONFIG_MAPPING[model_type]
        if "text_encoder" in (kind.sub_configs or {}):  # has no defaults
            continue
        config: Mapping[str, Any] = kind().to_dict()
        loses = any(name in (kind.sub_configs or {}) for name in parts) or model_type == "fuyu"
        refused = checkpoint_problem(config) is not None
        assert refused == (loses or bool(getattr(kind(), "is_encoder_decoder", False))), model_type
        seen += refused
    assert seen > 15


def test_weights_that_the_class_does_not_load_are_an_error(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    tiny_model().save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    given = load_file(path)
    norm = given["model.norm.weight"]
    constants = {"model.layers.0.self_attn.rotary_emb.inv_freq": norm.clone()}
    save_file(given | constants, path, metadata={"format": "pt"})
    assert load_model(tmp_path).config.num_hidden_layers == 2, "constants are computed"
    save_file(given | {"visual.patch.weight": norm.clone()}, path, metadata={"format": "pt"})
    with pytest.raises(
        StepError, match=r"does not load 1 weights: visual\.patch\.weight; the products would"
    ):
        load_model(tmp_path)


def scorer(folder: Path, *, head: bool = True) -> None:
    from transformers import AutoModelForSequenceClassification

    tiny_model().save_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=1)
    model.config.pad_token_id = 0
    weights = {n: w for n, w in model.state_dict().items() if head or not n.startswith("score.")}
    model.save_pretrained(folder, state_dict=weights)


def test_a_scorer_is_not_trained_as_a_language_model(tmp_path: Path) -> None:
    scorer(tmp_path)
    with pytest.raises(StepError, match="is a reward model or classifier: it returns scores"):
        load_model(tmp_path, task="CAUSAL_LM")


def test_the_head_of_a_published_scorer_must_exist(tmp_path: Path) -> None:
    scorer(tmp_path, head=False)
    with pytest.raises(StepError, match=r"lack 1 weights: score\.weight"):
        load_model(tmp_path)


def test_a_conversion_of_the_dtype_keeps_the_head_of_a_scorer(tmp_path: Path) -> None:
    given = tmp_path / "given"
    scorer(given)
    expected = load_model(given).score.weight
    (tmp_path / "out").mkdir()
    files = {f"model/{path.name}": path for path in given.iterdir()}
    params = ModelStepParams(
        init=None,
        from_="./it",
        revision=None,
        tokenizer=None,
        chat_template=None,
        tags=None,
        dtype="bfloat16",
        quantize="none",
        seed=0,
    )
    context: Any = SimpleNamespace(params=params, files=files, out=tmp_path / "out", facts={})
    run(context)
    converted = load_model(tmp_path / "out")
    assert (type(converted).__name__, str(converted.dtype)) == (
        "Qwen2ForSequenceClassification",
        "torch.bfloat16",
    )
    assert converted.score.weight.float().allclose(expected, atol=1e-2)


def training_context(folder: Path) -> Any:
    events: list[dict[str, Any]] = []

    def emit(kind: str, **about: Any) -> None:
        events.append({"kind": kind, **about})

    params = SimpleNamespace(adapter=None, seed=0, weights_dtype="auto")
    return SimpleNamespace(
        events=SimpleNamespace(emit=emit, log=events), inputs={"model": folder}, params=params, work=folder
    )


def save_with_tokenizer(folder: Path) -> None:
    from posttrain.runtime.models.character_tokenizer import build_character_tokenizer

    tiny_model().save_pretrained(folder)
    build_character_tokenizer("0123456789", []).save_pretrained(folder)


def test_training_a_quantized_checkpoint_is_refused_before_it_is_loaded(tmp_path: Path) -> None:
    save_with_tokenizer(tmp_path)
    change_config(tmp_path, quantization_config={"quant_method": "gptq", "bits": 4})
    with pytest.raises(StepError, match=r"quantized \(gptq\)"):
        load_for_training(training_context(tmp_path))


def test_weights_that_transformers_skips_are_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from safetensors.torch import load_file, save_file
    from transformers import Qwen2ForCausalLM

    save_with_tokenizer(tmp_path)
    path = tmp_path / "model.safetensors"
    given = load_file(path)
    save_file(given | {"mtp.0.weight": given["model.norm.weight"].clone()}, path, metadata={"format": "pt"})
    monkeypatch.setattr(Qwen2ForCausalLM, "_keys_to_ignore_on_load_unexpected", [r"^mtp\."])
    context = training_context(tmp_path)
    load_for_training(context)
    (warning,) = [event for event in context.events.log if event["kind"] == "warning"]
    assert "does not load 1 weights: mtp.0.weight" in warning["message"]
