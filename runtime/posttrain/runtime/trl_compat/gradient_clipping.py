"""Clips the gradients of groups of weights separately.

The Trainer clips all gradients by one norm: a large gradient of one model would scale down those of another.
It has no public hook for clipping.

    transformers/trainer.py:2664 `Trainer._clip_grad_norm`: `def _clip_grad_norm(self, model):`
"""

from typing import Any

# With sharded gradients, one norm over all weights is computed.
_SHARDED = ("DEEPSPEED", "FSDP")


def group_clipping_trainer(base: Any) -> Any:
    """Derive a trainer class that clips each group of weights by its own norm, and reports the first norm.

    Its subclasses define `clipping_groups`, the groups, and `on_gradient_norms(norms)`, which is called with
    the norm of each group before clipping.
    """
    import torch

    class GroupClippingTrainer(base):
        def _clip_grad_norm(self, model: Any) -> Any:
            if self.accelerator.distributed_type.name in _SHARDED:
                return super()._clip_grad_norm(model)
            self.accelerator.unscale_gradients()
            norms = [
                torch.nn.utils.clip_grad_norm_(group, self.args.max_grad_norm)
                for group in self.clipping_groups
            ]
            self.on_gradient_norms(norms)
            return norms[0]

    return GroupClippingTrainer
