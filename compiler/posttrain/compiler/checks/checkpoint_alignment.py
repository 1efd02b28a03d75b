"""Reports checkpoint intervals that are rounded up so that the method can resume exactly."""

from posttrain.compiler.checks.trained_model import TrainedModel
from posttrain.compiler.checks.training_examples import training_example
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.spec.diagnostic import Code

_STAGE = (
    "{train: grpo, model: base, data: sums.train, reward: right,"
    " params: {max_steps: 40, optimizer_steps_per_generation: 4, save_steps: %d}}"
)
ROUNDED_SAVE_STEPS = Code(
    "PT0639",
    "save_steps rounded up",
    "note",
    "Each batch of generated completions is used for `optimizer_steps_per_generation` x `num_iterations`"
    " optimizer steps. A run that resumed inside these steps would generate other completions. Checkpoints"
    " are therefore saved after a multiple of that number of steps, and `save_steps` is rounded up.",
    wrong=training_example(_STAGE % 10),
    right=training_example(_STAGE % 12),
)
CODES = (ROUNDED_SAVE_STEPS,)


def check_save_steps(trained_model: TrainedModel, diagnostics: Diagnostics) -> None:
    every, boundary = trained_model.param_value("save_steps"), trained_model.training.boundary
    if every is None or boundary is None or every % boundary == 0:
        return
    rounded = -(-every // boundary) * boundary
    message = f"checkpoints are saved every {rounded} steps: the method can resume every {boundary} steps"
    diagnostics.add(ROUNDED_SAVE_STEPS, trained_model.param_path("save_steps"), message)
