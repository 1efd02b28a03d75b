"""Checks features that need a GPU, and the limits of float16."""

from collections.abc import Iterator, Sequence

from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.checks.training_examples import training_example
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.artifact_stages import Generate
from posttrain.spec.diagnostic import Code
from posttrain.spec.eval_stages import Evaluate
from posttrain.spec.hardware import Placement

_GPU = ("recipe: 1\n", "recipe: 1\nhardware: {gpus: 1xH100-80GB}\n")
_VLLM = ("{eval: sft,", "{eval: sft, engine: vllm,")
_STAGE = "{train: sft, model: base, data: sums.train, params: {epochs: 1, batch_size: 4%s}}"
NEEDS_GPU = Code(
    "PT1011",
    "feature that needs a GPU",
    "warning",
    "Quantized weights (bitsandbytes), Liger kernels and vLLM work on GPUs only. The target has no GPUs, so"
    " the stage fails when it starts. Set `hardware: {gpus: ...}` to the GPUs of the target.",
    wrong=minimal_recipe(_VLLM),
    right=minimal_recipe(_GPU, _VLLM),
)
FLOAT16_LIMITS = Code(
    "PT1012",
    "unsupported float16 training",
    "warning",
    "float16 has a small range (up to 65504), so training scales the loss to keep small gradients"
    " representable. Without a GPU there is no loss scaling, and the stage computes in float32 whatever"
    " `precision` says. On a GPU, torch cannot scale the gradients of weights that are stored in float16."
    " bfloat16 does not have these limits.",
    wrong=training_example(_STAGE % ", precision: float16"),
    right=training_example(_STAGE % ", precision: float32"),
)
CODES = (NEEDS_GPU, FLOAT16_LIMITS)


def check_gpu_requirements(
    resolved: ResolvedRecipe, trained: Sequence[TrainedModel], diagnostics: Diagnostics
) -> None:
    gpus = resolved.recipe.hardware.gpus is not None
    for subject in trained:
        _check_float16(subject, gpus, diagnostics)
    for path, what in _gpu_features(resolved, trained) if not gpus else ():
        help = "declare the GPUs of the target, for example `hardware: {gpus: 1xH100-80GB}`"
        diagnostics.add(NEEDS_GPU, path, f"{what} needs a GPU, but the target has none", help=help)


def _gpu_features(resolved: ResolvedRecipe, trained: Sequence[TrainedModel]) -> Iterator[tuple[KeyPath, str]]:
    """Yield the features that need a GPU, and where the recipe requests them."""
    for subject in trained:
        adapter, placement = subject.adapter, subject.stage.placement
        if adapter is not None and adapter.type == "qlora":
            yield (*subject.adapter_path, "type"), "a QLoRA adapter"
        elif subject.base_model is not None and subject.base_model.quantize != "none" and subject.has_adapter:
            yield (*subject.path, "model"), f"training on {subject.base_model.quantize} weights"
        if subject.param_value("use_liger_kernel"):
            yield subject.param_path("use_liger_kernel"), "Liger"
        if isinstance(placement, Placement) and placement.rollouts.engine == "vllm":
            yield (*subject.path, "placement", "rollouts", "engine"), "vLLM"
    for name, stage in resolved.recipe.stages.items():
        if isinstance(stage, Evaluate | Generate) and stage.engine == "vllm":
            yield ("stages", name, "engine"), "vLLM"


def _check_float16(trained_model: TrainedModel, gpus: bool, diagnostics: Diagnostics) -> None:
    if trained_model.param_value("precision") != "float16":
        return
    path = trained_model.param_path("precision")
    if not gpus:
        message = "float16 has no effect without a GPU: the stage computes in float32"
        diagnostics.add(FLOAT16_LIMITS, path, message, help="set `precision: float32`, or remove the key")
    elif _has_float16_weights(trained_model):
        message = "the weights are stored in float16, so their gradients cannot be scaled"
        help = "set `precision: bfloat16`, or `dtype: float32` for the model"
        diagnostics.add(FLOAT16_LIMITS, path, message, help=help, severity="error")


def _has_float16_weights(trained_model: TrainedModel) -> bool:
    """Return whether float16 weights are trained directly. DeepSpeed trains a float32 copy instead."""
    placement = trained_model.stage.placement
    divided = isinstance(placement, Placement) and placement.strategy.startswith("zero")
    return (
        trained_model.base_model is not None
        and trained_model.base_model.dtype == "float16"
        and not trained_model.has_adapter
        and not divided
    )
