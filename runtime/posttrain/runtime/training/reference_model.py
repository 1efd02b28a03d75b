"""The reference model of a method: the starting weights, or the model that the stage names as `reference`.

Without a name, the trainer uses the starting weights: a second copy of them, the model under a new adapter,
or a copy of the adapter that training continues.
"""

from typing import Any

from posttrain.runtime.distributed.full_weights import sync_reference_weights
from posttrain.runtime.errors import StepError
from posttrain.runtime.models.model_loader import StartingModel, full_weights_dir, load_model
from posttrain.runtime.step_context import StepContext


def load_named_reference(context: StepContext) -> Any:
    """Load the reference model that the stage names, or return None."""
    folder = context.inputs.get("reference")
    return None if folder is None else load_model(full_weights_dir(context, folder, "reference"))


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


def sync_sharded_reference(trainer: Any) -> None:
    """Replace TRL's reference update by one that works shard by shard, for ZeRO-3."""
    from transformers import TrainerCallback
    from trl.trainer.callbacks import SyncRefModelCallback

    args = trainer.args

    class ShardedReferenceSync(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step % args.ref_model_sync_steps == 0:
                sync_reference_weights(trainer.ref_model, trainer.model, args.ref_model_mixup_alpha)

    if getattr(args, "sync_ref_model", False):
        trainer.remove_callback(SyncRefModelCallback)
        trainer.add_callback(ShardedReferenceSync())
