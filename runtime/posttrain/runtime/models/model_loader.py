"""Loads models that earlier steps made: whole weights, or an adapter on what it stands on."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.errors import StepError
from posttrain.runtime.models import model_origin, peft_adapters, quantization
from posttrain.runtime.models.peft_adapters import CAUSAL_LM, SEQ_CLS
from posttrain.runtime.models.pretrained_weights import load_weights, shorten_message
from posttrain.runtime.step_context import StepContext

_TOKENIZER_ADVICE = "fetch or save the tokenizer's files again, or name a tokenizer for the model"
# Classes that are all that tokenizer.json says. The library would take the architecture's own for some.
_GENERIC_TOKENIZER_CLASSES = ("TokenizersBackend", "PreTrainedTokenizerFast")


@dataclass(frozen=True)
class StartingModel:
    """What a training stage starts from."""

    model: Any
    tokenizer: Any
    # The configuration of an adapter that the trainer is to put on the model, if any.
    adapter_config: Any
    # The key of the product that the trained adapter stands on; None when all weights are trained.
    base_key: str | None
    # What the product's weights are to be in, where they are trained in something wider.
    stored_dtype: Any = None


def load_for_training(context: StepContext, task: str = CAUSAL_LM) -> StartingModel:
    """The model that a stage trains, with its tokenizer, as its `adapter` says."""
    context.events.emit("phase", name="loading")
    folder, adapter = context.inputs["model"], context.params["adapter"]
    tokenizer = load_tokenizer(folder)
    if adapter is None or adapter["type"] == "full":
        model = load_model(full_weights_dir(context, folder), task=task, seed=context.params["seed"])
        stored = model.dtype
        if context.params.get("weights_dtype") == "float32":
            model = model.float()
        return StartingModel(model, tokenizer, None, None, stored if stored != model.dtype else None)
    quantize = quantization.quantization_type(adapter, folder)
    if _continues_adapter(folder, adapter, task):
        model = load_model(folder, task=task, trainable=True, quantize=quantize)
        base = peft_adapters.product_key(peft_adapters.base_model_dir(folder))
        return StartingModel(model, tokenizer, None, base)
    start = full_weights_dir(context, folder)
    model = load_model(start, task=task, quantize=quantize, seed=context.params["seed"])
    return StartingModel(
        model,
        tokenizer,
        peft_adapters.new_lora_config(adapter, model, task),
        peft_adapters.product_key(folder),
    )


def _continues_adapter(folder: Path, adapter: Any, task: str) -> bool:
    """Whether an adapter goes on. One made for another task has no place for the new head."""
    return (
        peft_adapters.is_adapter(folder)
        and adapter["existing_adapter"] == "continue"
        and peft_adapters.adapter_task(folder) == task
    )


def full_weights_dir(context: StepContext, folder: Path, name: str = "merged") -> Path:
    """A folder with the whole weights of a product: its own, or those of its adapter merged.

    TRL makes its reference from the folder that a model was loaded from, so merged weights need one.
    """
    if not peft_adapters.is_adapter(folder):
        return folder
    merged = context.work / "scratch" / name
    model = load_model(folder).merge_and_unload(safe_merge=True)
    model.save_pretrained(merged, safe_serialization=True)
    return merged


def load_model(
    folder: Path,
    *,
    task: str | None = None,
    trainable: bool = False,
    quantize: str = "none",
    seed: int = 0,
) -> Any:
    """A product's model. An adapter stays apart from its base, as it was trained."""
    if not peft_adapters.is_adapter(folder):
        return _load_full_weights(folder, task or model_origin.model_task(folder), quantize, seed)
    from peft import PeftModel

    below, task = peft_adapters.base_model_dir(folder), peft_adapters.adapter_task(folder)
    base = (
        _load_merged(below, task, quantize)
        if peft_adapters.is_adapter(below)
        else _load_full_weights(below, task, quantize)
    )
    return PeftModel.from_pretrained(base, folder, is_trainable=trainable)


def load_checkpoint(context: StepContext, checkpoint: Path) -> Any:
    """The model of a checkpoint of a training stage: whole weights, or an adapter on what it trains on."""
    if not (checkpoint / "adapter_config.json").exists():
        return _load_full_weights(checkpoint, CAUSAL_LM, "none")
    from peft import PeftModel

    folder, adapter = context.inputs["model"], context.params["adapter"]
    goes_on = _continues_adapter(folder, adapter, CAUSAL_LM)
    below = peft_adapters.base_model_dir(folder) if goes_on else folder
    base = load_model(below)
    if peft_adapters.is_adapter(below):
        base = base.merge_and_unload(safe_merge=True)
    return PeftModel.from_pretrained(base, checkpoint)


def _load_merged(folder: Path, task: str, quantize: str) -> Any:
    """An adapter's product as whole weights. They are merged in full precision, whatever follows."""
    model = load_model(folder).merge_and_unload(safe_merge=True)
    if quantize == "none" and task == peft_adapters.adapter_task(folder):
        return model
    with TemporaryDirectory() as merged:
        model.save_pretrained(merged, safe_serialization=True)
        loaded = _load_full_weights(Path(merged), task, quantize)
        loaded.name_or_path = (
            model.name_or_path
        )  # a folder that stays: vLLM starts from the one that it names
        return loaded


def _load_full_weights(folder: Path, task: str, quantize: str, seed: int = 0) -> Any:
    """Whole weights, from safetensors only and without code of their own."""
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, set_seed

    arguments: dict[str, Any] = quantization.quantization_arguments(quantize)
    if task == SEQ_CLS:
        set_seed(seed)  # the head of a new scorer is drawn
        arguments["num_labels"] = 1
    kind = AutoModelForSequenceClassification if task == SEQ_CLS else AutoModelForCausalLM
    return load_weights(kind, folder, task == SEQ_CLS, arguments)


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer of a folder, as its files have it."""
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    arguments: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
    named = (atomic_io.read_json(folder / "tokenizer_config.json") or {}).get("tokenizer_class")
    kind = PreTrainedTokenizerFast if named in _GENERIC_TOKENIZER_CLASSES else AutoTokenizer
    if named in _GENERIC_TOKENIZER_CLASSES and not (folder / "tokenizer.json").exists():
        raise StepError("the model's folder has no tokenizer.json", _TOKENIZER_ADVICE)
    try:
        return kind.from_pretrained(folder, **arguments)
    except (ValueError, OSError) as error:
        raise StepError(
            f"the tokenizer cannot be read: {shorten_message(error)}", _TOKENIZER_ADVICE
        ) from None
