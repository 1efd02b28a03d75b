"""Checks the arguments under `trl:` against the table of the pinned release, without importing TRL."""

from collections.abc import Mapping
from typing import Any

from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.checks.training_examples import training_example
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.facts.fact_tables import load_table
from posttrain.spec.diagnostic import Code

_STAGE = "{train: sft, model: base, data: sums.train, trl: {%s}}"
UNKNOWN_ARGUMENT = Code(
    "PT0621",
    "unknown TRL argument",
    "error",
    "`trl` passes its arguments unchanged to the configuration class of the trainer. The pinned release has"
    " no such argument, so the trainer would reject it after the model is loaded. Unknown keys inside a"
    " mapping argument are often ignored silently, so they are errors too.",
    wrong=training_example(_STAGE % "adam_beta3: 0.9"),
    right=training_example(_STAGE % "adam_beta2: 0.95"),
)
WRONG_ARGUMENT = Code(
    "PT0622",
    "invalid value of a TRL argument",
    "error",
    "The argument exists, but takes another type or other values. TRL itself detects some of these errors"
    " only after the first batch.",
    wrong=training_example(_STAGE % "adam_beta2: high"),
    right=training_example(_STAGE % "adam_beta2: 0.95"),
)
RESERVED_ARGUMENT = Code(
    "PT0623",
    "reserved TRL argument",
    "error",
    "posttrain sets this argument itself, from a parameter of the stage or from another key of the recipe. A"
    " second value would conflict with it, and some values would prevent exact resume. Use the key that the"
    " help line names.",
    wrong=training_example(_STAGE % "learning_rate: 1.0e-4"),
    right=training_example("{train: sft, model: base, data: sums.train, params: {learning_rate: 1.0e-4}}"),
)
UNUSED_ARGUMENT = Code(
    "PT0624",
    "unused TRL argument",
    "warning",
    "The argument configures a feature that this stage does not use, so it has no effect. Enable the"
    " feature, or remove the argument.",
    wrong=training_example(_STAGE % "liger_kernel_config: {rope: false}"),
    right=training_example(
        "{train: sft, model: base, data: sums.train, params: {use_liger_kernel: true},"
        " trl: {liger_kernel_config: {rope: false}}}"
    ).replace("recipe: 1\n", "recipe: 1\nhardware: {gpus: 1xH100-80GB}\n"),
)
CODES = (UNKNOWN_ARGUMENT, WRONG_ARGUMENT, RESERVED_ARGUMENT, UNUSED_ARGUMENT)
_CODE_OF_KIND = {
    "unknown": UNKNOWN_ARGUMENT,
    "wrong": WRONG_ARGUMENT,
    "reserved": RESERVED_ARGUMENT,
    "unread": UNUSED_ARGUMENT,
}


def config_arguments(kind: str) -> Mapping[str, Any]:
    """Return the arguments of a TRL configuration class, by name."""
    facts = load_table("trl")
    return {**facts["shared"], **facts["classes"][kind]}


def check_trl_args(trained_model: TrainedModel, diagnostics: Diagnostics) -> None:
    if not trained_model.stage.trl:
        return
    kind = trained_model.method.trl
    if kind is None:
        message = f"`{trained_model.method.name}` does not use TRL, so it takes no TRL arguments"
        diagnostics.add(UNKNOWN_ARGUMENT, (*trained_model.path, "trl"), message, key=True)
        return
    from posttrain.compiler.checks.trl_arg_problems import find_problems

    for one in find_problems(trained_model, kind, config_arguments(kind), diagnostics.root):
        code = _CODE_OF_KIND[one.kind]
        diagnostics.add(code, one.path, one.message, key=one.key, help=one.help, replace=one.replace)
