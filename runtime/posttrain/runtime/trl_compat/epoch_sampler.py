"""Seeds the order of the rows by epoch, so that a resumed run has the order of an uninterrupted one.

TRL's RepeatSampler draws all epochs from one generator, seeded once. A run that is resumed after its first
epoch restarts that generator and repeats the order of the first epoch. Here every epoch has its own
generator, derived from the seed and the epoch. With several processes, the trainer of a resumed run does not
pass the number of the epoch to the sampler, so the training loop does.

    trl/trainer/utils.py:928 `RepeatSampler.__init__`: `self.generator.manual_seed(seed)`
    transformers/trainer.py:1794 `Trainer._run_epoch`: `underlying_sampler.set_epoch(epoch)`
"""

from collections.abc import Callable, Iterator
from typing import Any

from posttrain.spec.keys import digest


def seed_sampler_by_epoch(trainer: Any) -> Callable[[int], None]:
    """Replace the trainer's RepeatSampler, if it uses one, by a sampler that is seeded by epoch.

    Returns a function to call with the number of each epoch before it starts: with several processes, the
    trainer of a resumed run does not set the epoch of the sampler.
    """
    make_sampler = trainer._get_train_sampler
    samplers: list[Any] = []

    def get_sampler(*arguments: Any, **named: Any) -> Any:
        samplers[:] = [_epoch_seeded(make_sampler(*arguments, **named))]
        return samplers[0]

    def set_epoch(epoch: int) -> None:
        if samplers and hasattr(samplers[0], "set_epoch"):
            samplers[0].set_epoch(epoch)

    trainer._get_train_sampler = get_sampler
    return set_epoch


def _epoch_seeded(sampler: Any) -> Any:
    import torch
    from trl.trainer.utils import RepeatSampler

    if not isinstance(sampler, RepeatSampler) or sampler.seed is None:
        return sampler
    base: Any = type(sampler)

    class EpochSeededSampler(base):
        epoch = 0

        def set_epoch(self, epoch: int) -> None:
            """Called by the trainer at the start of each epoch, including a resumed one."""
            self.epoch = epoch

        def __iter__(self) -> Iterator[int]:
            self.generator = torch.Generator()
            self.generator.manual_seed(int(digest([self.seed, self.epoch])[:15], 16))
            return super().__iter__()

    sampler.__class__ = EpochSeededSampler
    return sampler
