"""Freezes parameters by their names, and finds trained parameters that receive no gradient."""

from fnmatch import fnmatchcase
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.spec.step_params.adapter_options import AdapterOptions

_SHOWN = 5


def freeze_parameters(model: Any, adapter: AdapterOptions) -> None:
    """Freeze the parameters that `trainable` does not select, or `freeze` does."""
    if not adapter.trainable and not adapter.freeze:
        return
    names = [name for name, _ in model.named_parameters()]
    for field, patterns in (("trainable", adapter.trainable), ("freeze", adapter.freeze)):
        if unused := [one for one in patterns if not any(fnmatchcase(name, one) for name in names)]:
            raise StepError(
                f"the pattern `{unused[0]}` in `{field}` matches no parameter of the model",
                f"parameters have names such as {', '.join(names[:2] + names[-1:])}",
            )
    for name, weight in model.named_parameters():
        chosen = not adapter.trainable or any(fnmatchcase(name, one) for one in adapter.trainable)
        weight.requires_grad_(chosen and not any(fnmatchcase(name, one) for one in adapter.freeze))
    if not any(weight.requires_grad for weight in model.parameters()):
        raise StepError(
            "`trainable` and `freeze` leave no parameter to train", "remove patterns from `freeze`"
        )


def check_gradients(model: Any) -> None:
    """Raise StepError if a trained parameter has no gradient after a backward pass."""
    trained = [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]
    without = [name for name, weight in trained if weight.grad is None]
    if without:
        more = f" and {len(without) - _SHOWN} more" if len(without) > _SHOWN else ""
        raise StepError(
            f"{len(without)} of {len(trained)} trained parameters receive no gradient:"
            f" {', '.join(without[:_SHOWN])}{more}",
            "the loss does not depend on them: leave them out of the stage's `adapter`",
        )
