"""LoRA+: trains the LoRA matrices B with a higher learning rate than the matrices A."""

from typing import Any


def loraplus_trainer(trainer: Any, ratio: float) -> Any:
    """Return a subclass of a trainer whose optimizer is PEFT's for LoRA+."""

    class LoraPlusTrainer(trainer):
        def create_optimizer(self, model: Any = None) -> Any:
            from peft.optimizers import create_loraplus_optimizer

            # The trainer calls this again after it has wrapped the model.
            if getattr(self, "optimizer", None) is None:
                trained = self.model if model is None else model
                kind, arguments = self.get_optimizer_cls_and_kwargs(self.args, trained)
                self.optimizer = create_loraplus_optimizer(
                    trained,
                    optimizer_cls=kind,
                    loraplus_lr_ratio=ratio,
                    loraplus_weight_decay=self.args.weight_decay,
                    **arguments,
                )
            return self.optimizer

    LoraPlusTrainer.__name__ = trainer.__name__
    return LoraPlusTrainer
