"""Loads the models of earlier steps: full weights, or an adapter on its base model."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.errors import StepError
from posttrain.runtime.models import (
    model_origin,
    parameter_freezing,
    peft_adapters,
    peft_config,
    quantization,
)
from posttrain.runtime.models.peft_adapters import CAUSAL_LM, SEQ_CLS
from posttrain.runtime.models.pretrained_weights import (
    format_names,
    ignored_weights,
    load_weights,
    shorten_message,
)
from posttrain.runtime.step_context import StepContext
from posttrain.spec.architectures.unsupported_checkpoints import quantized_weights
from posttrain.spec.step_params.adapter_options import AdapterOptions
from posttrain.spec.step_params.train_params import TrainStepParams

_TOKENIZER_ADVICE = "download or save the tokenizer files again, or set `tokenizer` for the model"
# Generic classes, which tokenizer.json defines completely. AutoTokenizer would replace them by the
# architecture's own class for some models.
_GENERIC_TOKENIZER_CLASSES = ("TokenizersBackend", "PreTrainedTokenizerFast")


@dataclass(frozen=True)
class StartingModel:
    """The model and tokenizer that a training stage starts from."""

    model: Any
    tokenizer: Any
    # The configuration of a new adapter, which the trainer adds to the model; None for no new adapter.
    adapter_config: Any
    # The key of the product that is the base of the trained adapter; None if all weights are trained.
    base_key: str | None
    # The dtype of the product's weights, if they are trained in a wider dtype.
    stored_dtype: Any = None


def load_for_training(context: StepContext[TrainStepParams], task: str = CAUSAL_LM) -> StartingModel:
    """Load the model and tokenizer that a stage trains, according to its `adapter`."""
    context.events.emit("phase", name="loading")
    folder, adapter = context.inputs["model"], context.params.adapter
    tokenizer = load_tokenizer(folder)
    _check_full_precision(folder)
    start = _load_start(context, folder, adapter, tokenizer, task)
    _warn_about_ignored_weights(context, start.model, folder)
    return start


def _load_start(
    context: StepContext[TrainStepParams],
    folder: Path,
    adapter: AdapterOptions | None,
    tokenizer: Any,
    task: str,
) -> StartingModel:
    if adapter is None or adapter.type == "full":
        model = load_model(full_weights_dir(context, folder), task=task, seed=context.params.seed)
        stored = model.dtype
        if context.params.weights_dtype == "float32":
            model = model.float()
        if adapter is not None:
            parameter_freezing.freeze_parameters(model, adapter)
        return StartingModel(model, tokenizer, None, None, stored if stored != model.dtype else None)
    quantize = quantization.quantization_type(adapter, folder)
    if _continues_adapter(folder, adapter, task):
        model = load_model(folder, task=task, trainable=True, quantize=quantize)
        base = peft_adapters.product_key(peft_adapters.base_model_dir(folder))
        return StartingModel(model, tokenizer, None, base)
    start = full_weights_dir(context, folder)
    model = load_model(start, task=task, quantize=quantize, seed=context.params.seed)
    return StartingModel(
        model,
        tokenizer,
        peft_config.new_adapter_config(adapter, model, tokenizer, task),
        peft_adapters.product_key(folder),
    )


def _check_full_precision(folder: Path) -> None:
    """Raise StepError for a checkpoint that was published with quantized weights."""
    method = quantized_weights(atomic_io.read_json(full_weights_below(folder) / "config.json") or {})
    if method is not None:
        raise StepError(
            f"the model's weights are quantized ({method}): training or merging them loses precision",
            "use the model in full precision; `quantize` or `adapter: {type: qlora}` quantizes it when it is"
            " loaded",
        )


def _warn_about_ignored_weights(context: StepContext, model: Any, folder: Path) -> None:
    # A product of an adapter is merged, or stays an adapter on its base model.
    loaded = model.get_base_model() if hasattr(model, "get_base_model") else model
    ignored = ignored_weights(loaded, full_weights_below(folder))
    if ignored:
        message = f"transformers does not load {format_names(ignored)}; the trained model lacks them"
        context.events.emit("warning", message=message, advice="use another model if you need them")


def full_weights_below(folder: Path) -> Path:
    """The folder of the full weights under all adapters of a product."""
    while peft_adapters.is_adapter(folder):
        folder = peft_adapters.base_model_dir(folder)
    return folder


def _continues_adapter(folder: Path, adapter: AdapterOptions | None, task: str) -> bool:
    """Whether training continues an existing adapter. An adapter for another task lacks the new head."""
    return (
        adapter is not None
        and peft_adapters.is_adapter(folder)
        and adapter.existing_adapter == "continue"
        and peft_adapters.adapter_task(folder) == task
    )


def full_weights_dir(context: StepContext, folder: Path, name: str = "merged") -> Path:
    """Return a folder with the full weights of a product: its own, or a new one with the merged adapter.

    TRL loads its reference model from the folder of the trained model, so merged weights need a folder.
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
    dtype: str | None = None,
) -> Any:
    """Load the model of a product. An adapter is not merged. `dtype` converts full weights."""
    if not peft_adapters.is_adapter(folder):
        return _load_full_weights(folder, task or model_origin.model_task(folder), quantize, seed, dtype)
    from peft import PeftModel

    below, task = peft_adapters.base_model_dir(folder), peft_adapters.adapter_task(folder)
    base = (
        _load_merged(below, task, quantize)
        if peft_adapters.is_adapter(below)
        else _load_full_weights(below, task, quantize)
    )
    return PeftModel.from_pretrained(base, folder, is_trainable=trainable)


def load_checkpoint(context: StepContext[TrainStepParams], checkpoint: Path) -> Any:
    """Load the model of a training checkpoint: full weights, or an adapter on its base model."""
    if not (checkpoint / "adapter_config.json").exists():
        return _load_full_weights(checkpoint, CAUSAL_LM, "none")
    from peft import PeftModel

    folder, adapter = context.inputs["model"], context.params.adapter
    if adapter is not None and adapter.changes_base and not _continues_adapter(folder, adapter, CAUSAL_LM):
        raise StepError(
            f"a checkpoint of an adapter with `init_lora_weights: {adapter.init_lora_weights}` cannot be"
            " loaded: it depends on the changed base weights of the running stage",
            "wait until the stage has finished",
        )
    continues = _continues_adapter(folder, adapter, CAUSAL_LM)
    below = peft_adapters.base_model_dir(folder) if continues else folder
    base = load_model(below)
    if peft_adapters.is_adapter(below):
        base = base.merge_and_unload(safe_merge=True)
    return PeftModel.from_pretrained(base, checkpoint)


def _load_merged(folder: Path, task: str, quantize: str) -> Any:
    """Load an adapter's product as full weights. They are merged in full precision, then quantized."""
    model = load_model(folder).merge_and_unload(safe_merge=True)
    if quantize == "none" and task == peft_adapters.adapter_task(folder):
        return model
    with TemporaryDirectory() as merged:
        model.save_pretrained(merged, safe_serialization=True)
        loaded = _load_full_weights(Path(merged), task, quantize)
        loaded.name_or_path = model.name_or_path  # a permanent folder, from which vLLM can start
        return loaded


def _load_full_weights(
    folder: Path, task: str, quantize: str, seed: int = 0, dtype: str | None = None
) -> Any:
    """Load full weights, from safetensors only and without remote code."""
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, set_seed

    arguments: dict[str, Any] = quantization.quantization_arguments(quantize)
    if dtype is not None:
        arguments["dtype"] = dtype
    if task == SEQ_CLS:
        set_seed(seed)  # the head of a new scorer is initialized at random
        arguments["num_labels"] = 1
    kind = AutoModelForSequenceClassification if task == SEQ_CLS else AutoModelForCausalLM
    is_scorer = model_origin.model_task(folder) == SEQ_CLS
    if is_scorer and task != SEQ_CLS:
        raise StepError(
            "the model is a reward model or classifier: it returns scores and has no language-modeling head",
            "train, evaluate and generate with a causal language model",
        )
    has_new_head = task == SEQ_CLS and not is_scorer
    return load_weights(kind, folder, has_new_head, arguments)


def load_tokenizer(folder: Path) -> Any:
    """Load the tokenizer of a folder, with the class that its files name."""
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
            f"the tokenizer cannot be loaded: {shorten_message(error)}", _TOKENIZER_ADVICE
        ) from None
