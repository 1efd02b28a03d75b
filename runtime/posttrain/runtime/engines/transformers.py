"""The engine that generates with transformers, on a CPU or a GPU."""

from typing import TYPE_CHECKING

from posttrain.runtime.step_context import StepContext
from posttrain.spec.extension import Engine
from posttrain.spec.step_params.generation_params import ModelTarget

if TYPE_CHECKING:
    from posttrain.runtime.engines.transformers_generator import TransformersGenerator

EXTENSION = Engine(
    name="transformers",
    summary="Generation with transformers, on a CPU or a GPU.",
    version=2,
    stack=("torch", "transformers", "tokenizers"),
    preload=("torch", "transformers.modeling_utils", "transformers.generation.utils"),
)


def run(context: StepContext, model_spec: ModelTarget) -> "TransformersGenerator":
    import torch

    from posttrain.runtime.engines.transformers_generator import TransformersGenerator
    from posttrain.runtime.models.model_loader import load_model, load_tokenizer

    folder = context.inputs[model_spec.role]
    model = load_model(folder)
    if context.step.resources.gpus and torch.cuda.is_available():
        model = model.to("cuda")

    def warn(message: str, advice: str) -> None:
        context.events.emit("warning", message=message, advice=advice)

    return TransformersGenerator(model, load_tokenizer(folder), warn)
