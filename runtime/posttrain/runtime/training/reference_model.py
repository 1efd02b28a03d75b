"""The reference model of a method: the starting weights, or the model that the stage names as `reference`.

Without a name, the trainer uses the starting weights: a second copy of them, the model under a new adapter,
or a copy of the adapter that training continues.
"""

from typing import Any

from posttrain.runtime.models.model_loader import full_weights_dir, load_model
from posttrain.runtime.step_context import StepContext


def load_named_reference(context: StepContext) -> Any:
    """Load the reference model that the stage names, or return None."""
    folder = context.inputs.get("reference")
    return None if folder is None else load_model(full_weights_dir(context, folder, "reference"))
