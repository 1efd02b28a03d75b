"""Makes GRPO and RLOO load the reference model that the stage names.

These trainers take no reference model. They load a second copy of the trained model from the folder in its
configuration, so that folder is replaced here. DPO and KTO have the argument `ref_model`.

    trl/trainer/grpo_trainer.py:1003 `GRPOTrainer.__init__`: `self.ref_model = create_model_from_path(`
    trl/trainer/rloo_trainer.py:689 `RLOOTrainer.__init__`: `self.ref_model = create_model_from_path(`
"""

from posttrain.runtime.errors import StepError
from posttrain.runtime.models.model_loader import StartingModel, full_weights_dir
from posttrain.runtime.step_context import StepContext


def use_named_reference(context: StepContext, start: StartingModel) -> None:
    """Redirect a trainer that loads its own reference model to the one that the stage names."""
    folder = context.inputs.get("reference")
    if folder is None:
        return
    if start.base_key is not None:
        raise StepError(
            "`reference` is not supported when an adapter is trained on rewards: the reference is always the"
            " starting weights",
            "remove `reference`, or train all weights (`adapter: {type: full}`)",
        )
    start.model.config.name_or_path = str(full_weights_dir(context, folder, "reference"))
