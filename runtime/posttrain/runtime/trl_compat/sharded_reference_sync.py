"""Updates a reference model shard by shard under ZeRO-3.

TRL gathers all weights of both models for this update. After the first step of a resumed run, that breaks
DeepSpeed's prefetching in the second step.

    trl/trainer/callbacks.py:140 `SyncRefModelCallback.sync_target_model`: `zero.GatheredParameters(`
"""

from typing import Any

from posttrain.runtime.distributed.full_weights import sync_reference_weights


def sync_sharded_reference(trainer: Any) -> None:
    """Replace TRL's reference update, if the trainer updates its reference model."""
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
