"""Betas, batches and groups of completions far from practice."""

from collections.abc import Mapping

from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.checks.training_examples import training_example
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.spec.diagnostic import Code

_DPO = "{train: dpo, model: base, data: sums.train, params: {%s}}"
_GRPO = "{train: grpo, model: base, data: sums.train, reward: right, params: {max_steps: 9, %s}}"
UNUSUAL_BETA = Code(
    "PT0632",
    "a beta far from practice",
    "warning",
    "Beta says how tightly the model is held to its reference (in simpo and cpo, how steep the preference"
    " is). dpo, ipo and kto use 0.1 to 0.3, simpo 2 to 2.5, reinforcement learning 0 to 0.1. Far below, the"
    " model drifts off; far above, it hardly moves.",
    wrong=training_example(_DPO % "beta: 10"),
    right=training_example(_DPO % "beta: 0.1"),
)
SMALL_BATCH_SIZE = Code(
    "PT0633",
    "a small batch for learning from preferences",
    "warning",
    "Each pair carries little, and noise: effective batches of 16 to 32 and more are used. `batch_size`"
    " counts the rows of an optimizer step; `micro_batch_size` says how many of them are in memory at once,"
    " so a large batch need not take more memory. Models that start from random weights are not judged.",
    wrong=training_example("{train: dpo, model: base, data: sums.train, params: {batch_size: 2}}", hub=True),
    right=training_example(
        "{train: dpo, model: base, data: sums.train, params: {batch_size: 32, micro_batch_size: 2}}", hub=True
    ),
)
FEW_GENERATIONS = Code(
    "PT0634",
    "few completions to compare",
    "warning",
    "grpo judges a completion beside the others of its prompt. With two or three of them the comparison is"
    " mostly chance, and most groups hold no difference at all; 8 to 16 are common.",
    wrong=training_example(_GRPO % "num_generations: 2"),
    right=training_example(_GRPO % "num_generations: 8"),
)
LOW_TEMPERATURE = Code(
    "PT0635",
    "completions that hardly differ",
    "warning",
    "Reinforcement learning compares completions of the same prompt. At a low temperature they come out"
    " alike, their rewards too, and nothing is learnt; 0.7 to 1.0 is common, and the losses are derived"
    " for 1.0.",
    wrong=training_example(_GRPO % "temperature: 0.1"),
    right=training_example(_GRPO % "temperature: 1.0"),
)
CODES = (UNUSUAL_BETA, SMALL_BATCH_SIZE, FEW_GENERATIONS, LOW_TEMPERATURE)
_BETA_RANGES: Mapping[str, tuple[float, float, float]] = {
    "dpo": (0.01, 1.0, 0.1),
    "ipo": (0.01, 1.0, 0.1),
    "kto": (0.01, 1.0, 0.1),
    "orpo": (0.01, 1.0, 0.1),
    "cpo": (0.01, 1.0, 0.1),
    "simpo": (0.5, 20.0, 2.0),
    "grpo": (0.0, 0.5, 0.04),
    "rloo": (0.0, 0.5, 0.05),
    "ppo": (0.0, 0.5, 0.05),
}
_PREFERENCE_METHODS = ("dpo", "ipo", "kto", "orpo", "cpo", "simpo", "reward_model")
_MIN_BATCH_SIZE, _MIN_GENERATIONS, _MIN_TEMPERATURE = 8, 4, 0.4


def check_beta(trained_model: TrainedModel, diagnostics: Diagnostics) -> None:
    # Where a loss takes the mean over tokens, as SimPO's does, beta is of another size.
    kind = "simpo" if trained_model.param_value("loss_type") == "sigmoid_norm" else trained_model.method.name
    beta, usual = trained_model.param_value("beta"), _BETA_RANGES.get(kind)
    if beta is None or usual is None or usual[0] <= beta <= usual[1]:
        return
    low, high, common = usual
    message = (
        f"a beta of {beta:g} is far from what {trained_model.method.name} is used with: {low:g} to {high:g}"
    )
    diagnostics.add(
        UNUSUAL_BETA, trained_model.param_path("beta"), message, help=f"{common:g} is a common choice"
    )


def check_batch_size(trained_model: TrainedModel, diagnostics: Diagnostics) -> None:
    batch = trained_model.param_value("batch_size")
    if batch is None or trained_model.method.name not in _PREFERENCE_METHODS or trained_model.from_scratch:
        return
    if batch < _MIN_BATCH_SIZE:
        message = f"a batch of {batch} is small for {trained_model.method.name}: 16 to 32 rows are common"
        help = f"write batch_size: 32 and micro_batch_size: {batch}, which takes no more memory"
        diagnostics.add(SMALL_BATCH_SIZE, trained_model.param_path("batch_size"), message, help=help)


def check_num_generations(trained_model: TrainedModel, diagnostics: Diagnostics) -> None:
    generations = trained_model.param_value("num_generations")
    if trained_model.method.name == "grpo" and generations is not None and generations < _MIN_GENERATIONS:
        message = f"{generations} completions of a prompt leave little to compare"
        diagnostics.add(
            FEW_GENERATIONS, trained_model.param_path("num_generations"), message, help="8 is a common choice"
        )


def check_temperature(trained_model: TrainedModel, diagnostics: Diagnostics) -> None:
    temperature = trained_model.param_value("temperature")
    if temperature is not None and temperature < _MIN_TEMPERATURE:
        message = f"at a temperature of {temperature:g} the completions of a prompt hardly differ"
        diagnostics.add(
            LOW_TEMPERATURE, trained_model.param_path("temperature"), message, help="1.0 is a common choice"
        )
