"""Reports models of which a part would be lost: from `config.json`, or the table of published models."""

from collections.abc import Sequence

from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import MINIMAL_INIT, minimal_recipe
from posttrain.compiler.facts.published_shapes import published_parts
from posttrain.compiler.model_json import model_file, read_model_json
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.architectures.unsupported_checkpoints import (
    CheckpointProblem,
    checkpoint_problem,
    lost_parts,
    quantized_weights,
)
from posttrain.spec.diagnostic import Code
from posttrain.spec.origin_names import is_folder

_SEES, _PLAIN = '{"model_type": "gemma3", "vision_config": {}}', '{"model_type": "qwen2"}'
_QUANTIZED = '{"model_type": "qwen2", "quantization_config": {"quant_method": "gptq"}}'
UNSUPPORTED_MODEL = Code(
    "PT0820",
    "unsupported model",
    "error",
    "posttrain loads models as causal language models for text. A vision tower, an audio encoder, the encoder"
    " of an encoder-decoder model or the head of a classifier would be missing from every product. Models"
    " that need custom code are not run.",
    wrong=minimal_recipe((MINIMAL_INIT, "    from: ./sees\n")),
    right=minimal_recipe((MINIMAL_INIT, "    from: ./plain\n")),
    files=(
        ("sees/config.json", _SEES),
        ("sees/model.safetensors", "(weights)"),
        ("plain/config.json", _PLAIN),
        ("plain/model.safetensors", "(weights)"),
    ),
)
QUANTIZED_CHECKPOINT = Code(
    "PT0821",
    "training of a quantized checkpoint",
    "error",
    "The weights of the checkpoint are quantized (GPTQ, AWQ, FP8 and others). Training them fails, and"
    " merging an adapter into them loses precision. Train the model in full precision; `quantize` or"
    " `adapter: {type: qlora}` quantizes it when it is loaded. Evals accept quantized checkpoints.",
    wrong=minimal_recipe((MINIMAL_INIT, "    from: ./small\n")),
    right=minimal_recipe((MINIMAL_INIT, "    from: ./plain\n")),
    files=(
        ("small/config.json", _QUANTIZED),
        ("small/model.safetensors", "(weights)"),
        ("plain/config.json", _PLAIN),
        ("plain/model.safetensors", "(weights)"),
    ),
)
CODES = (UNSUPPORTED_MODEL, QUANTIZED_CHECKPOINT)


def check_supported(origin: str, path: KeyPath, request: CompileRequest, diagnostics: Diagnostics) -> None:
    """Report a model of which a part would be lost, as far as it is known before the run."""
    problem = _folder_problem(origin, request) if is_folder(origin) else lost_parts(published_parts(origin))
    if problem is not None:
        diagnostics.add(UNSUPPORTED_MODEL, path, f"`{origin}` {problem.reason}", help=problem.advice)


def check_quantized_checkpoints(
    resolved: ResolvedRecipe,
    trained: Sequence[TrainedModel],
    request: CompileRequest,
    diagnostics: Diagnostics,
) -> None:
    """Report stages that train a model from a folder with quantized weights."""
    for subject in trained:
        origin = subject.base_model.from_ if subject.base_model is not None else None
        method = (
            quantized_weights(read_model_json(origin, "config.json", request))
            if origin and is_folder(origin)
            else None
        )
        if method is not None and subject.previous_stage is None:
            message = (
                f"the weights of `{origin}` are quantized ({method}), so `{subject.name}` cannot train them"
            )
            help = "use the model in full precision, with `adapter: {type: qlora}` to save memory"
            diagnostics.add(QUANTIZED_CHECKPOINT, (*subject.path, "model"), message, help=help)


def _folder_problem(origin: str, request: CompileRequest) -> CheckpointProblem | None:
    problem = checkpoint_problem(read_model_json(origin, "config.json", request))
    if problem is None and request.file_prefix(model_file(origin, "adapter_config.json"), 1) is not None:
        return CheckpointProblem(
            "contains an adapter of PEFT, which would not be loaded", "merge it into its base model first"
        )
    return problem
