"""Checkpoints of which posttrain would lose a part: one table of what a `config.json` declares.

Models are loaded as causal language models for text. Whatever such a model does not have would be missing
from every product, without an error of the libraries.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.spec.record import record

# The start of the key of a nested configuration, and the part of the model that it describes. Other nested
# configurations, such as attn_config, belong to the text model.
_PARTS = {
    "vision": "a vision tower",
    "visual": "a vision tower",
    "image": "an image encoder",
    "video": "a video encoder",
    "vq": "an image tokenizer",
    "audio": "an audio encoder",
    "speech": "an audio encoder",
    "codec": "an audio decoder",
    "talker": "a speech decoder",
    "thinker": "inputs other than text",
    "vlm": "a vision tower",
}
# Keys with a value that only models of several modalities have.
_MODALITY_KEYS = (
    "mm_vision_tower",
    "vision_tower",
    "visual",
    "image_token_id",
    "image_token_index",
    "video_token_id",
    "audio_token_id",
    "audio_token_index",
)
# Types of encoder-decoder models whose `config.json` may leave out `is_encoder_decoder`.
_ENCODER_DECODERS = ("t5", "mt5", "umt5", "bart", "mbart", "pegasus", "marian", "m2m_100", "whisper")
# What the class of a checkpoint ends with, and its head that a language model does not have.
_OTHER_HEADS = {
    "ForMaskedLM": "a masked language model, which does not generate",
    "ForPreTraining": "a masked language model, which does not generate",
    "ForTokenClassification": "a classifier of tokens",
    "ForQuestionAnswering": "a model that marks answers in a text",
    "ForMultipleChoice": "a classifier of choices",
    "ForConditionalGeneration": "a model with an encoder or with several modalities",
    "ForImageTextToText": "a model with several modalities",
    "ForSpeechSeq2Seq": "a speech model",
    "ForCTC": "a speech model",
    "Model": "a model without a language-modeling head, such as an embedding model",
}
_LANGUAGE_MODELS = ("ForCausalLM", "LMHeadModel", "WithLMHead", "BertGenerationDecoder")
_TEXT_ADVICE = "use a text-only causal language model; posttrain trains and evaluates on text only"


@record
class CheckpointProblem:
    """Why a checkpoint is refused, as a clause about the model, and what to do."""

    reason: str
    advice: str


def checkpoint_problem(config: Mapping[str, Any]) -> CheckpointProblem | None:
    """The first reason to refuse a model with this `config.json`; None if it is a causal language model."""
    if config.get("auto_map") and not config.get("model_type"):
        return CheckpointProblem(
            "requires custom code (trust_remote_code), which posttrain does not run",
            "use a model whose architecture is part of transformers",
        )
    problem = lost_parts(_other_parts(config))
    if problem is not None:
        return problem
    if config.get("is_encoder_decoder") is True or config.get("model_type") in _ENCODER_DECODERS:
        return CheckpointProblem("is an encoder-decoder model", _TEXT_ADVICE)
    names = config.get("architectures")
    name = str(names[0]) if isinstance(names, list) and names else ""
    if name.endswith(_LANGUAGE_MODELS):
        return None
    for ending, meaning in _OTHER_HEADS.items():
        if name.endswith(ending):
            return CheckpointProblem(f"is {meaning} ({name})", _TEXT_ADVICE)
    return None


def lost_parts(parts: Sequence[str]) -> CheckpointProblem | None:
    """The problem of a model with these parts besides the text model."""
    return (
        CheckpointProblem(f"has {' and '.join(parts)}, which would be lost", _TEXT_ADVICE) if parts else None
    )


def quantized_weights(config: Mapping[str, Any]) -> str | None:
    """The quantization of the weights of a checkpoint, such as gptq; None for weights in full precision."""
    found = config.get("quantization_config") or config.get("compression_config")
    if not isinstance(found, Mapping):
        return None
    return str(found.get("quant_method") or "an unknown method")


def _other_parts(config: Mapping[str, Any]) -> list[str]:
    """The parts of a model other than its text part."""
    nested = [key for key, value in config.items() if key.endswith("_config") and isinstance(value, Mapping)]
    parts = [part for key in nested for start, part in _PARTS.items() if key.startswith(start)]
    if not parts and any(config.get(key) is not None for key in _MODALITY_KEYS):
        return ["inputs other than text"]
    return list(dict.fromkeys(parts))
