"""Whether sequences fit into the model's context."""

from collections.abc import Mapping

from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.checks.training_examples import training_example
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.facts.model_shapes import Shape
from posttrain.compiler.resolution.lineage import Lineage
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.stages.inference import InferenceConfig
from posttrain.spec.artifact_stages import Generate
from posttrain.spec.declaration_fields import is_explicitly_set
from posttrain.spec.diagnostic import Code
from posttrain.spec.eval_stages import Evaluate

EXCEEDS_CONTEXT = Code(
    "PT0637",
    "sequences longer than the model's context",
    "warning",
    "A model reads so many tokens and no more. Sequences are cut to its context, whatever max_length"
    " says; without a max_length it is 1024 or the context, the smaller of the two.",
    wrong=training_example("{train: sft, model: base, data: sums.train, params: {max_length: 4096}}"),
    right=training_example("{train: sft, model: base, data: sums.train, params: {max_length: 256}}"),
)
NO_ROOM_FOR_PROMPT = Code(
    "PT0638",
    "no room for a prompt before the completion",
    "error",
    "Prompt and completion share the model's context. Completions as long as the context leave no room"
    " for any prompt: in training, and where an eval or a generation asks the model.",
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
        message = f"max_length is {longest}, and the model's context {context} tokens"
        help = f"write {context} or less: longer rows are cut"
        diagnostics.add(EXCEEDS_CONTEXT, trained_model.param_path("max_length"), message, help=help)
    if completion is not None and completion >= context:
        message = f"completions of {completion} tokens leave no room for a prompt in a context of {context}"
        help = "lower max_tokens by what the longest prompt takes"
        if not trained_model.is_param_given("max_completion_length"):
            help = f"it is {completion} when not given: write max_tokens, such as {max(1, context // 2)}"
        diagnostics.add(
            NO_ROOM_FOR_PROMPT, trained_model.param_path("max_completion_length"), message, help=help
        )


def check_inference_lengths(
    resolved: ResolvedRecipe,
    asked: Mapping[str, tuple[Evaluate | Generate, InferenceConfig]],
    lineages: Mapping[str, Lineage],
    shapes: Mapping[str, Shape],
    diagnostics: Diagnostics,
) -> None:
    """What evals and generations ask of models of a known context."""
    for name, (stage, asking) in asked.items():
        contexts = [
            _context_length(name, one.role, resolved, lineages, shapes)
            for one in asking.targets
            if not one.endpoint
        ]
        context = min((found for found in contexts if found is not None), default=None)
        longest = stage.sampling.max_tokens
        if context is None or longest < context:
            continue
        written = is_explicitly_set(stage.sampling, "max_tokens")
        path = ("stages", name, "sampling", "max_tokens") if written else ("stages", name)
        message = f"completions of {longest} tokens leave no room for a prompt in a context of {context}"
        help = "lower max_tokens by what the longest prompt takes"
        if not written:
            sampling = f"sampling: {{max_tokens: {max(1, context // 2)}}}"
            help = f"it is {longest} when not given: write `{sampling}`, say"
        diagnostics.add(NO_ROOM_FOR_PROMPT, path, message, key=not written, help=help)


def _context_length(
    name: str,
    role: str,
    resolved: ResolvedRecipe,
    lineages: Mapping[str, Lineage],
    shapes: Mapping[str, Shape],
) -> int | None:
    ref = resolved.refs.get((f"stage:{name}", role))
    line = lineages.get(ref.node) if ref is not None else None
    shape = shapes.get(line.origin) if line is not None and line.origin else None
    return shape.positions if shape is not None else None
