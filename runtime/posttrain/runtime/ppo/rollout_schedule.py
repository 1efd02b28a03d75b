"""Assigns prompts to rollouts, and completions of a rollout to micro-batches.

The assignment depends only on the seed and the step, so that a resumed run has the same order as an
uninterrupted one.
"""

import random
from dataclasses import dataclass

from posttrain.spec.keys import digest


def derive_seed(seed: int, *names: int | str) -> int:
    """Derive an independent seed for each purpose."""
    return int(digest([seed, *names])[:15], 16)


@dataclass(frozen=True)
class MicroBatch:
    """The completions of one micro-batch."""

    # The number of the rollout.
    generation: int
    # The optimizer step within the rollout.
    step: int
    # The indices in the rollout: of the whole optimizer step, and of the micro-batch.
    step_indices: list[int]
    indices: list[int]


@dataclass(frozen=True, kw_only=True)
class RolloutSchedule:
    """The order of prompts and completions in one process."""

    seed: int
    num_prompts: int
    micro_batch_size: int
    accumulation_steps: int
    num_mini_batches: int
    num_ppo_epochs: int
    rank: int = 0
    processes: int = 1

    @property
    def rollout_size(self) -> int:
        """The number of completions in a rollout of this process."""
        return self.micro_batch_size * self.accumulation_steps * self.num_mini_batches

    def micro_batch_at(self, number: int) -> MicroBatch:
        """Return a micro-batch by its number, counted from the start of the run."""
        step, micro = divmod(number, self.accumulation_steps)
        generation, step = divmod(step, self.num_mini_batches * self.num_ppo_epochs)
        ppo_epoch, mini_batch = divmod(step, self.num_mini_batches)
        order = list(range(self.rollout_size))
        random.Random(derive_seed(self.seed, "order", generation, ppo_epoch, self.rank)).shuffle(order)
        size = self.micro_batch_size * self.accumulation_steps
        indices = order[mini_batch * size :][:size]
        return MicroBatch(
            generation, step, indices, indices[micro * self.micro_batch_size :][: self.micro_batch_size]
        )

    def prompt_rows(self, generation: int) -> list[int]:
        """Return the rows of this process's prompts in a rollout. Each epoch has its own random order."""
        first = (generation * self.processes + self.rank) * self.rollout_size
        places = [divmod(place, self.num_prompts) for place in range(first, first + self.rollout_size)]
        orders = {epoch: self._epoch_order(epoch) for epoch in {epoch for epoch, _ in places}}
        return [orders[epoch][place] for epoch, place in places]

    def _epoch_order(self, epoch: int) -> list[int]:
        order = list(range(self.num_prompts))
        random.Random(derive_seed(self.seed, "epoch", epoch)).shuffle(order)
        return order
