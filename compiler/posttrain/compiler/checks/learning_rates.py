"""Warns about learning rates far from common practice for the method, the adapter and the model size."""

from collections.abc import Mapping

from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.checks.training_examples import published_example
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.spec.diagnostic import Code

UNUSUAL_LEARNING_RATE = Code(
    "PT0631",
    "unusual learning rate",
    "warning",
    "The learning rate is far outside the usual range of this method for published models. With a much"
    " higher rate the model loses its ability to generate; with a much lower rate it hardly changes. Full"
    " training of models with billions of parameters uses 1e-5 to 5e-5 in sft and 5e-7 to 1e-6 in dpo."
    " Adapters, and models with a few hundred million parameters, use about ten times as much. Models with"
    " random initial weights are exempt.",
    wrong=published_example(
        ("params: {epochs: 1, batch_size: 4}", "params: {batch_size: 4, learning_rate: 0.05}")
    ),
    right=published_example(
        ("params: {epochs: 1, batch_size: 4}", "params: {batch_size: 4, learning_rate: 2.0e-5}")
    ),
)
CODES = (UNUSUAL_LEARNING_RATE,)
# For full training of models with billions of parameters: the lowest and the highest usual rate, and a
# common rate.
_TYPICAL_RATES: Mapping[str, tuple[float, float, float]] = {
    "sft": (1e-6, 2e-4, 2e-5),
    "reward_model": (5e-7, 1e-4, 1e-5),
    "dpo": (5e-8, 1e-5, 1e-6),
    "ipo": (5e-8, 1e-5, 1e-6),
    "kto": (5e-8, 2e-5, 1e-6),
    "orpo": (5e-7, 5e-5, 8e-6),
    "cpo": (5e-8, 2e-5, 1e-6),
    "simpo": (5e-8, 1e-5, 1e-6),
    "grpo": (5e-8, 1e-5, 1e-6),
    "rloo": (5e-8, 1e-5, 1e-6),
    "ppo": (5e-8, 1e-5, 1e-6),
}
_ADAPTER_FACTOR = 10.0
_SMALL_MODEL_FACTOR = 10.0  # for models below this size, and models of unknown size
_SMALL_MODEL_PARAMETERS = 800_000_000


def check_learning_rate(trained_model: TrainedModel, diagnostics: Diagnostics) -> None:
    rate = trained_model.param_value("learning_rate")
    usual = _TYPICAL_RATES.get(trained_model.method.name)
    if rate is None or usual is None or trained_model.from_scratch or trained_model.base_model is None:
        return
    low, high, common = usual
    if trained_model.has_adapter:
        # An adapter with the rate of full training learns slowly, but the rate is still reasonable.
        low, high, common = low * 4, high * _ADAPTER_FACTOR, common * _ADAPTER_FACTOR
    if trained_model.num_parameters is None or trained_model.num_parameters < _SMALL_MODEL_PARAMETERS:
        high *= _SMALL_MODEL_FACTOR
    if low <= rate <= high:
        return
    what = "an adapter" if trained_model.has_adapter else "full training"
    side = "high" if rate > high else "low"
    message = (
        f"a learning rate of {rate:g} is very {side} for {trained_model.method.name} with {what}"
        f"{_size_text(trained_model.num_parameters)}: {low:g} to {high:g} is usual"
    )
    diagnostics.add(
        UNUSUAL_LEARNING_RATE,
        trained_model.param_path("learning_rate"),
        message,
        help=f"{common:g} is a common value",
    )


def _size_text(size: int | None) -> str:
    return f" of {size / 1e9:.2g}B parameters" if size else ""
