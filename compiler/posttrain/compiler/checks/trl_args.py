"""Arguments under `trl:`, held to the table of the pinned release: no import of TRL is needed."""

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
    "an argument that TRL does not have",
    "error",
    "`trl` passes arguments to the trainer's configuration class as they are. This one is none of the"
    " pinned release's, so the trainer would refuse it after the model is loaded. The keys within an argument"
    " that is a mapping go on to something else, which often ignores in silence what it does not know.",
    wrong=training_example(_STAGE % "adam_beta3: 0.9"),
    right=training_example(_STAGE % "adam_beta2: 0.95"),
)
WRONG_ARGUMENT = Code(
    "PT0622",
    "a value that an argument of TRL does not take",
    "error",
    "The argument exists, and takes another type or other values. TRL itself finds some of these only"
    " when they are used, after the first batch.",
    wrong=training_example(_STAGE % "adam_beta2: high"),
    right=training_example(_STAGE % "adam_beta2: 0.95"),
)
RESERVED_ARGUMENT = Code(
    "PT0623",
    "an argument of TRL that is not given here",
    "error",
    "posttrain sets this argument itself, from a parameter of the stage or from elsewhere in the recipe."
    " Given twice, one of the two would be ignored; and some would break the promise that a killed"
    " stage resumes exactly.",
    wrong=training_example(_STAGE % "learning_rate: 1.0e-4"),
    right=training_example("{train: sft, model: base, data: sums.train, params: {learning_rate: 1.0e-4}}"),
)
UNUSED_ARGUMENT = Code(
    "PT0624",
    "an argument of TRL that nothing reads",
    "warning",
    "The argument says how something is done that this stage does not do, so it has no effect.",
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
    """The arguments of a configuration class of TRL, by name."""
    facts = load_table("trl")
    return {**facts["shared"], **facts["classes"][kind]}


def check_trl_args(trained_model: TrainedModel, diagnostics: Diagnostics) -> None:
    if not trained_model.stage.trl:
        return
    kind = trained_model.method.trl
    if kind is None:
        message = f"`{trained_model.method.name}` does not stand on TRL, so it takes no arguments of it"
        diagnostics.add(UNKNOWN_ARGUMENT, (*trained_model.path, "trl"), message, key=True)
        return
    from posttrain.compiler.checks.trl_arg_problems import find_problems

    for one in find_problems(trained_model, kind, config_arguments(kind), diagnostics.root):
        code = _CODE_OF_KIND[one.kind]
        diagnostics.add(code, one.path, one.message, key=one.key, help=one.help, replace=one.replace)
