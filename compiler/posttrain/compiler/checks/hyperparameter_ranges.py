"""Warns about values of beta, batch size, group size and temperature far from common practice."""

from collections.abc import Mapping

from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.checks.training_examples import training_example
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.spec.diagnostic import Code

_DPO = "{train: dpo, model: base, data: sums.train, params: {%s}}"
_GRPO = "{train: grpo, model: base, data: sums.train, reward: right, params: {max_steps: 9, %s}}"
UNUSUAL_BETA = Code(
    "PT0632",
    "unusual beta",
    "warning",
    "Beta sets how strongly training penalizes divergence from the reference model. In simpo and cpo it sets"
    " how steep the preference loss is. Common values are 0.1 to 0.3 for dpo, ipo and kto, 2 to 2.5 for"
    " simpo, and 0 to 0.1 for reinforcement learning. With a much lower value the model drifts away from the"
    " reference; with a much higher value it hardly changes.",
    wrong=training_example(_DPO % "beta: 10"),
    right=training_example(_DPO % "beta: 0.1"),
)
SMALL_BATCH_SIZE = Code(
    "PT0633",
    "small batch size for preference training",
    "warning",
    "A single preference pair carries little signal and much noise, so effective batch sizes of 16 to 32 or"
    " more are common. `batch_size` is the number of rows in an optimizer step; `micro_batch_size` is how"
    " many of them are in memory at once, so a larger batch does not need more memory. Models with random"
    " initial weights are exempt.",
    wrong=training_example("{train: dpo, model: base, data: sums.train, params: {batch_size: 2}}", hub=True),
    right=training_example(
        "{train: dpo, model: base, data: sums.train, params: {batch_size: 32, micro_batch_size: 2}}", hub=True
    ),
)
FEW_GENERATIONS = Code(
    "PT0634",
    "small group of completions",
    "warning",
    "grpo compares the completions of a prompt with each other. With two or three completions the comparison"
    " is mostly noise, and many groups have equal rewards. 8 to 16 completions are common.",
    wrong=training_example(_GRPO % "num_generations: 2"),
    right=training_example(_GRPO % "num_generations: 8"),
)
LOW_TEMPERATURE = Code(
    "PT0635",
    "low sampling temperature for reinforcement learning",
    "warning",
    "Reinforcement learning compares completions of the same prompt. At a low temperature the completions"
    " and their rewards are nearly equal, so the model learns nothing. 0.7 to 1.0 is common, and the losses"
    " are derived for 1.0.",
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
    # A loss that averages over tokens, as in SimPO, needs a larger beta.
    kind = "simpo" if trained_model.param_value("loss_type") == "sigmoid_norm" else trained_model.method.name
    beta, usual = trained_model.param_value("beta"), _BETA_RANGES.get(kind)
    if beta is None or usual is None or usual[0] <= beta <= usual[1]:
        return
    low, high, common = usual
    message = (
        f"a beta of {beta:g} is far from the usual range of {trained_model.method.name}: {low:g} to {high:g}"
    )
    diagnostics.add(
        UNUSUAL_BETA, trained_model.param_path("beta"), message, help=f"{common:g} is a common value"
    )


def check_batch_size(trained_model: TrainedModel, diagnostics: Diagnostics) -> None:
    batch = trained_model.param_value("batch_size")
    if batch is None or trained_model.method.name not in _PREFERENCE_METHODS or trained_model.from_scratch:
        return
    if batch < _MIN_BATCH_SIZE:
        message = f"a batch size of {batch} is small for {trained_model.method.name}: 16 to 32 is common"
        help = f"set `batch_size: 32` and `micro_batch_size: {batch}`: the memory use stays the same"
        diagnostics.add(SMALL_BATCH_SIZE, trained_model.param_path("batch_size"), message, help=help)


def check_num_generations(trained_model: TrainedModel, diagnostics: Diagnostics) -> None:
    generations = trained_model.param_value("num_generations")
    if trained_model.method.name == "grpo" and generations is not None and generations < _MIN_GENERATIONS:
        message = f"{generations} completions per prompt are too few to compare"
        diagnostics.add(
            FEW_GENERATIONS, trained_model.param_path("num_generations"), message, help="8 is a common value"
        )


def check_temperature(trained_model: TrainedModel, diagnostics: Diagnostics) -> None:
    temperature = trained_model.param_value("temperature")
    if temperature is not None and temperature < _MIN_TEMPERATURE:
        message = f"at temperature {temperature:g} the completions of a prompt hardly differ"
        diagnostics.add(
            LOW_TEMPERATURE, trained_model.param_path("temperature"), message, help="1.0 is a common value"
        )
