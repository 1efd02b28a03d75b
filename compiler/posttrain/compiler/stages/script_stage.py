"""Checks script stages: their options, resources and outputs."""

from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.resolution.lineage import Lineage
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.artifact_stages import Script, ScriptOutput
from posttrain.spec.diagnostic import Code

_CHECK = "  check: {eval:"
_SCRIPT = "  tuned: {script: [python, -c, 'print(1)'], inputs: {model: sft, rows: sums.train}, %s}\n" + _CHECK
BAD_LIKE = Code(
    "PT0691",
    "output like an input that is no model",
    "error",
    "`like` names the input whose architecture and tokenizer the output has. It must be a model, or a stage"
    " that produces one.",
    wrong=minimal_recipe((_CHECK, _SCRIPT % "outputs: {model: {like: rows}}")),
    right=minimal_recipe((_CHECK, _SCRIPT % "outputs: {model: {like: model}}")),
)
TOO_MANY_GPUS = Code(
    "PT0692",
    "script with more GPUs than the target",
    "error",
    "A script stage runs on one machine, with the number of GPUs that it declares. The target is the section"
    " `hardware`.",
    wrong=minimal_recipe((_CHECK, _SCRIPT % "gpus: 1")),
    right=minimal_recipe(
        ("recipe: 1\n", "recipe: 1\nhardware: {gpus: 1xH100-80GB}\n"), (_CHECK, _SCRIPT % "gpus: 1")
    ),
)
CODES = (BAD_LIKE, TOO_MANY_GPUS)
_STACK_OF_ROWS = ("duckdb",)
_STACK_OF_MODELS = ("torch", "transformers", "safetensors")


def check_scripts(
    resolved: ResolvedRecipe, lineages: Mapping[str, Lineage], diagnostics: Diagnostics
) -> None:
    stages = {name: one for name, one in resolved.recipe.stages.items() if isinstance(one, Script)}
    for name, stage in stages.items():
        path: KeyPath = ("stages", name)
        _check_like(name, stage, path, resolved, lineages, diagnostics)
        if resolved.recipe.hardware.gpus is None:
            check_gpu_count(name, stage, 0, diagnostics)


def check_gpu_count(name: str, stage: Script, available: int, diagnostics: Diagnostics) -> None:
    if stage.gpus > available:
        message = f"the program needs {stage.gpus} GPUs, and a machine of the target has {available}"
        help = f"declare the GPUs of the target, for example `hardware: {{gpus: {stage.gpus}xH100-80GB}}`"
        diagnostics.add(TOO_MANY_GPUS, ("stages", name, "gpus"), message, help=help)


def _check_like(
    name: str,
    stage: Script,
    path: KeyPath,
    resolved: ResolvedRecipe,
    lineages: Mapping[str, Lineage],
    diagnostics: Diagnostics,
) -> None:
    for key, output in stage.outputs.items():
        role = output.like if isinstance(output, ScriptOutput) else None
        ref = resolved.refs.get((f"stage:{name}", role)) if role is not None else None
        if ref is not None and ref.product not in lineages:
            message = f"the input `{role}` of `{name}` is not a model"
            help = "name an input that is a model, or write `model` for a model of any architecture"
            diagnostics.add(BAD_LIKE, (*path, "outputs", key, "like"), message, help=help)


def script_arguments(args: Mapping[str, Any]) -> tuple[str, ...]:
    """The options of a program: --NAME VALUE for each argument."""
    found: list[str] = []
    for name, value in args.items():
        if value is False:
            continue
        values: Sequence[Any] = value if isinstance(value, tuple) else () if value is True else (value,)
        found += [f"--{name}", *map(str, values)]
    return tuple(found)


def script_stack(stage: Script) -> tuple[str, ...]:
    """The packages that a program requires, and those that check its outputs."""
    names = [each.partition("==")[0].lower().replace("_", "-") for each in stage.requires]
    for output in stage.outputs.values():
        has_rows = isinstance(output, ScriptOutput) and output.rows is not None
        names += _STACK_OF_ROWS if has_rows else _STACK_OF_MODELS
    return tuple(dict.fromkeys(names))
