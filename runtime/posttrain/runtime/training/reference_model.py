"""The frozen model that a method compares with: the starting weights, or the one that is named.

Without a name the trainer takes the weights that training began with: a second copy of them, the
model under a new adapter, or a copy of the adapter that goes on.
"""

from typing import Any

from posttrain.runtime.distributed.full_weights import sync_reference_weights
from posttrain.runtime.errors import StepError
from posttrain.runtime.models.model_loader import StartingModel, full_weights_dir, load_model
from posttrain.runtime.step_context import StepContext


def load_named_reference(context: StepContext) -> Any:
    """The reference that the stage names, for trainers that take one; else None."""
    folder = context.inputs.get("reference")
    return None if folder is None else load_model(full_weights_dir(context, folder, "reference"))


def use_named_reference(context: StepContext, start: StartingModel) -> None:
    """Have a trainer that loads its reference by itself load the one that the stage names."""
    folder = context.inputs.get("reference")
    if folder is None:
        return
    if start.base_key is not None:
        raise StepError(
            "an adapter that learns from rewards is held to where it starts, and to no other reference",
            "remove `reference`, or train all weights",
        )
    start.model.config.name_or_path = str(full_weights_dir(context, folder, "reference"))


def sync_sharded_reference(trainer: Any) -> None:
    """Have a reference that moves moved part by part, where ZeRO-3 divides it."""
    from transformers import TrainerCallback
    from trl.trainer.callbacks import SyncRefModelCallback

    args = trainer.args

    class Pull(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step % args.ref_model_sync_steps == 0:
                sync_reference_weights(trainer.ref_model, trainer.model, args.ref_model_mixup_alpha)

    if getattr(args, "sync_ref_model", False):
        trainer.remove_callback(SyncRefModelCallback)
        trainer.add_callback(Pull())
