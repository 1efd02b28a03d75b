"""Makes the order of the rows depend on the seed and the epoch alone.

TRL's RepeatSampler draws all epochs from one generator, seeded once. A run that is resumed beyond its
first epoch begins that generator anew and sees the first epoch's order again. Here every epoch has a
generator of its own, so that a resumed run draws what an uninterrupted one would have drawn.
"""

from collections.abc import Callable, Iterator
from typing import Any

from posttrain.spec.keys import digest


def seed_sampler_by_epoch(trainer: Any) -> Callable[[int], None]:
    """Have the trainer draw by epochs, if it would otherwise draw from a RepeatSampler.

    Gives what is to be told of each epoch before it begins: with several processes, the trainer of a
    resumed run does not reach the sampler.
    """
    make = trainer._get_train_sampler
    made: list[Any] = []

    def sampler(*arguments: Any, **named: Any) -> Any:
        made[:] = [_epoch_seeded(make(*arguments, **named))]
        return made[0]

    def begin(epoch: int) -> None:
        if made and hasattr(made[0], "set_epoch"):
            made[0].set_epoch(epoch)

    trainer._get_train_sampler = sampler
    return begin


def _epoch_seeded(sampler: Any) -> Any:
    import torch
    from trl.trainer.utils import RepeatSampler

    if not isinstance(sampler, RepeatSampler) or sampler.seed is None:
        return sampler
    whole: Any = type(sampler)

    class ByEpoch(whole):
        epoch = 0

        def set_epoch(self, epoch: int) -> None:
            """Called by the trainer at the beginning of each epoch, a resumed one too."""
            self.epoch = epoch

        def __iter__(self) -> Iterator[int]:
            self.generator = torch.Generator()
            self.generator.manual_seed(int(digest([self.seed, self.epoch])[:15], 16))
            return super().__iter__()

    sampler.__class__ = ByEpoch
    return sampler
