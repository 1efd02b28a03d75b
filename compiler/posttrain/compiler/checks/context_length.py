"""Checks that sequences, prompts and completions fit into the model's context length."""

from collections.abc import Mapping

from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.checks.training_examples import training_example
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.resolution.lineage import Lineage
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.stages.inference import InferenceConfig
from posttrain.spec.architectures.model_shapes import Shape
from posttrain.spec.artifact_stages import Generate
from posttrain.spec.declaration_fields import is_explicitly_set
from posttrain.spec.diagnostic import Code
from posttrain.spec.eval_stages import Evaluate

EXCEEDS_CONTEXT = Code(
    "PT0637",
    "max_length exceeds the context length",
    "warning",
    "Sequences are truncated to the context length of the model, even if max_length is larger. The default"
    " of max_length is 1024 or the context length, whichever is smaller.",
    wrong=training_example("{train: sft, model: base, data: sums.train, params: {max_length: 4096}}"),
    right=training_example("{train: sft, model: base, data: sums.train, params: {max_length: 256}}"),
)
NO_ROOM_FOR_PROMPT = Code(
    "PT0638",
    "completion length exceeds the context length",
    "error",
    "Prompt and completion share the context of the model. If the completion can be as long as the context,"
    " no prompt fits. This applies to training methods that generate, to evals and to generate stages.",
    wrong=training_example(
        "{train: grpo, model: base, data: sums.train, reward: right, params: {max_steps: 9,"
        " max_completion_length: 512}}"
    ),
    right=training_example(
        "{train: grpo, model: base, data: sums.train, reward: right, params: {max_steps: 9,"
        " max_completion_length: 128}}"
    ),
)
CODES = (EXCEEDS_CONTEXT, NO_ROOM_FOR_PROMPT)


def check_training_lengths(trained_model: TrainedModel, diagnostics: Diagnostics) -> None:
    context = trained_model.context_length
    if context is None:
        return
    longest, completion = (
        trained_model.param_value("max_length"),
        trained_model.param_value("max_completion_length"),
    )
    if longest is not None and trained_model.is_param_given("max_length") and longest > context:
        message = f"max_length is {longest}, but the context length of the model is {context} tokens"
        help = f"set max_length to {context} or less: longer rows are truncated"
        diagnostics.add(EXCEEDS_CONTEXT, trained_model.param_path("max_length"), message, help=help)
    if completion is not None and completion >= context:
        message = f"completions of {completion} tokens leave no room for a prompt in a context of {context}"
        help = "lower max_completion_length by the length of the longest prompt"
        if not trained_model.is_param_given("max_completion_length"):
            help = f"the default is {completion}: set max_completion_length to {max(1, context // 2)} or less"
        diagnostics.add(
            NO_ROOM_FOR_PROMPT, trained_model.param_path("max_completion_length"), message, help=help
        )


def check_inference_lengths(
    resolved: ResolvedRecipe,
    stages: Mapping[str, tuple[Evaluate | Generate, InferenceConfig]],
    lineages: Mapping[str, Lineage],
    shapes: Mapping[str, Shape],
    diagnostics: Diagnostics,
) -> None:
    """Check the completion length of evals and generate stages against the known context lengths."""
    for name, (stage, config) in stages.items():
        contexts = [
            _context_length(name, one.role, resolved, lineages, shapes)
            for one in config.targets
            if not one.endpoint
        ]
        context = min((found for found in contexts if found is not None), default=None)
        longest = stage.sampling.max_tokens
        if context is None or longest < context:
            continue
        written = is_explicitly_set(stage.sampling, "max_tokens")
        path = ("stages", name, "sampling", "max_tokens") if written else ("stages", name)
        message = f"completions of {longest} tokens leave no room for a prompt in a context of {context}"
        help = "lower max_tokens by the length of the longest prompt"
        if not written:
            sampling = f"sampling: {{max_tokens: {max(1, context // 2)}}}"
            help = f"the default is {longest}: set it, for example `{sampling}`"
        diagnostics.add(NO_ROOM_FOR_PROMPT, path, message, key=not written, help=help)


def _context_length(
    name: str,
    role: str,
    resolved: ResolvedRecipe,
    lineages: Mapping[str, Lineage],
    shapes: Mapping[str, Shape],
) -> int | None:
    ref = resolved.refs.get((f"stage:{name}", role))
    line = lineages.get(ref.product) if ref is not None else None
    shape = shapes.get(line.origin) if line is not None and line.origin else None
    return shape.positions if shape is not None else None
