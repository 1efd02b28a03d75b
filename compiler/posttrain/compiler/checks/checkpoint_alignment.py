"""Checkpoints that land where the method can resume exactly."""

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
    "checkpoints moved to where a stage resumes exactly",
    "note",
    "Completions that are written at once are learnt from over `optimizer_steps_per_generation` x"
    " `num_iterations` steps. A run that went on from the middle of them would write others, so checkpoints"
    " are made after every so many of these steps, rounded up.",
    wrong=training_example(_STAGE % 10),
    right=training_example(_STAGE % 12),
)
CODES = (ROUNDED_SAVE_STEPS,)


def check_save_steps(trained_model: TrainedModel, diagnostics: Diagnostics) -> None:
    every, boundary = trained_model.param_value("save_steps"), trained_model.training.boundary
    if every is None or boundary is None or every % boundary == 0:
        return
    rounded = -(-every // boundary) * boundary
    message = f"checkpoints are made every {rounded} steps: the method resumes exactly every {boundary}"
    diagnostics.add(ROUNDED_SAVE_STEPS, trained_model.param_path("save_steps"), message)
