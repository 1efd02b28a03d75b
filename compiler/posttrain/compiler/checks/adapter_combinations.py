"""Checks settings of an adapter that exclude each other, the method, the weights or the reference model."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.checks.training_examples import training_example
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.facts.parameter_names import embedding_modules
from posttrain.compiler.facts.trained_parameters import token_modules
from posttrain.spec.adapter_declaration import Adapter
from posttrain.spec.diagnostic import Code

_PAIRS = "{train: dpo, model: base, data: sums.train, adapter: {init_lora_weights: pissa}%s}"
UNSUPPORTED_ADAPTER = Code(
    "PT0693",
    "adapter settings that exclude each other",
    "error",
    "Some settings of an adapter do not work with a method or with the weights below it. The initializations"
    " pissa and olora change the base weights, and `bias` trains weights of the base model: without"
    " its adapter such a model is not the starting model, so it cannot serve as the reference. Quantized"
    " weights take LoRA only. Copies of input and output embeddings that share their weights would differ"
    " after training. Rows of an"
    " output layer with a bias cannot be trained.",
    wrong=training_example(_PAIRS % ""),
    right=training_example(_PAIRS % ", reference: base"),
)
CODES = (UNSUPPORTED_ADAPTER,)
# Types whose initial copy TRL does not fill, when it keeps one as the reference of a continued adapter.
_UNCOPIED_TYPES = ("ia3", "vera")


class _Conflict(NamedTuple):
    field: str
    message: str
    help: str


def check_adapter_combinations(trained_model: TrainedModel, diagnostics: Diagnostics) -> None:
    adapter = trained_model.adapter
    if adapter is None:
        return
    for rule in _RULES:
        for conflict in rule(trained_model, adapter):
            path = (*trained_model.adapter_path, conflict.field)
            diagnostics.add(UNSUPPORTED_ADAPTER, path, conflict.message, help=conflict.help)


def check_continued_reference(
    trained_model: TrainedModel, before: TrainedModel | None, diagnostics: Diagnostics
) -> None:
    """Report adapters that a stage continues, and of which TRL cannot keep the start as the reference."""
    adapter = trained_model.adapter
    if adapter is None or before is None or not _is_own_reference(trained_model):
        return
    continues = trained_model.has_adapter and before.has_adapter and adapter.existing_adapter == "continue"
    tokens = "trained tokens" if adapter.trainable_token_indices else ""
    what = f"`type: {adapter.type}`" if adapter.type in _UNCOPIED_TYPES else tokens
    if continues and what:
        message = f"the reference of a continued adapter with {what} cannot be kept"
        help = "start a new adapter with `adapter: {existing_adapter: merge, ...}`, or name a `reference`"
        diagnostics.add(UNSUPPORTED_ADAPTER, (*trained_model.path, "train"), message, help=help)


def _is_own_reference(trained_model: TrainedModel) -> bool:
    """Whether the trained model without its adapter, or with a copy of it, is the reference."""
    method = trained_model.method
    return (
        trained_model.stage.reference is None
        and method.trl is not None  # PPO keeps a copy of the whole policy
        and method.footprint.has_reference_model(trained_model.training.params)
    )


def _reference(trained_model: TrainedModel, adapter: Adapter) -> Iterator[_Conflict]:
    if not _is_own_reference(trained_model):
        return
    named = "set `beta: 0`" if trained_model.method.needs_reward else "name the starting model as `reference`"
    if adapter.changes_base:
        init = adapter.init_lora_weights
        message = (
            f"`{init}` changes the base weights, which are the reference of `{trained_model.method.name}`"
        )
        yield _Conflict("init_lora_weights", message, f"{named}, or remove the key")
    if adapter.bias != "none":
        message = (
            f"`bias: {adapter.bias}` trains base weights, which are the reference of"
            f" `{trained_model.method.name}`"
        )
        yield _Conflict("bias", message, f"{named}, or remove the key")


def _quantized(trained_model: TrainedModel, adapter: Adapter) -> Iterator[_Conflict]:
    model = trained_model.base_model
    if adapter.type != "qlora" and (model is None or model.quantize == "none"):
        return
    if adapter.changes_base:
        message = f"`{adapter.init_lora_weights}` changes the base weights, which are quantized"
        yield _Conflict(
            "init_lora_weights", message, "use `type: lora` without `quantize`, or remove the key"
        )
    if adapter.type not in ("full", "lora", "qlora"):
        message = f"`type: {adapter.type}` is not supported on quantized weights"
        yield _Conflict("type", message, "use `type: lora`, or remove `quantize`")


def _own_optimizer(trained_model: TrainedModel, adapter: Adapter) -> Iterator[_Conflict]:
    """PPO trains two models in one optimizer, which starts from the model with its adapter."""
    if trained_model.method.trl is not None:
        return
    name = trained_model.method.name
    if adapter.loraplus_lr_ratio is not None:
        message = f"`{name}` trains with its own optimizer, which has one learning rate for the policy"
        yield _Conflict("loraplus_lr_ratio", message, "remove the key")
    if adapter.changes_base:
        message = f"`{name}` does not support initializations that change the base weights"
        yield _Conflict("init_lora_weights", message, "remove the key")
    for field in ("trainable", "freeze"):
        if getattr(adapter, field):
            message = f"`{name}` cannot freeze weights: its value model starts from the same weights"
            yield _Conflict(field, message, "remove the key, or train an adapter")


def _tied_embeddings(trained_model: TrainedModel, adapter: Adapter) -> Iterator[_Conflict]:
    shape = trained_model.shape
    if shape is None or not shape.tied:
        return
    both = embedding_modules(shape)
    for name in adapter.modules_to_save:
        if any(module.endswith(name) for module in both):
            message = (
                f"`{name}` shares its weights with {' and '.join(m for m in both if not m.endswith(name))}"
            )
            help = "use `trainable_token_indices` to train embeddings, or train all weights"
            yield _Conflict("modules_to_save", message, help)


def _untrained_output(trained_model: TrainedModel, adapter: Adapter) -> Iterator[_Conflict]:
    shape = trained_model.shape
    if shape is None or "head" not in shape.architecture.bias:
        return
    head = embedding_modules(shape)[1]
    if head in token_modules(adapter, shape):
        message = f"rows of `{head}` cannot be trained, because it has a bias, which PEFT would drop"
        yield _Conflict("trainable_token_indices", message, f"add `modules_to_save: [{head}]`")


def _transposed(trained_model: TrainedModel, adapter: Adapter) -> Iterator[_Conflict]:
    shape = trained_model.shape
    if adapter.type == "oft" and shape is not None and shape.architecture.names == "gpt2":
        message = f"OFT does not support the transposed weights of {shape.architecture.model_type}"
        yield _Conflict("type", message, "use another type, such as lora")


_RULES: tuple[Callable[[TrainedModel, Adapter], Iterator[_Conflict]], ...] = (
    _reference,
    _quantized,
    _own_optimizer,
    _tied_embeddings,
    _untrained_output,
    _transposed,
)
