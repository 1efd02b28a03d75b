"""Which prompts a set of completions answers, and which of the completions a micro-batch learns from.

All of it follows from the seed and from how many steps there have been, so that a run which goes on
from a checkpoint draws what it would have drawn.
"""

import random
from dataclasses import dataclass

from posttrain.spec.keys import digest


def derive_seed(seed: int, *names: int | str) -> int:
    """A seed of its own for everything that is drawn."""
    return int(digest([seed, *names])[:15], 16)


@dataclass(frozen=True)
class MicroBatch:
    """What one micro-batch is about."""

    # The number of the set of completions.
    generation: int
    # The optimizer step, of those that learn from this set.
    step: int
    # The indices in the set that the whole optimizer step learns from, and the micro-batch.
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
        """Completions that this process generates at once."""
        return self.micro_batch_size * self.accumulation_steps * self.num_mini_batches

    def micro_batch_at(self, number: int) -> MicroBatch:
        """A micro-batch by its number, counted from the first one of the run."""
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
        """The rows whose prompts this process answers: all of them in a new order, again and again."""
        first = (generation * self.processes + self.rank) * self.rollout_size
        places = [divmod(place, self.num_prompts) for place in range(first, first + self.rollout_size)]
        orders = {epoch: self._epoch_order(epoch) for epoch in {epoch for epoch, _ in places}}
        return [orders[epoch][place] for epoch, place in places]

    def _epoch_order(self, epoch: int) -> list[int]:
        order = list(range(self.num_prompts))
        random.Random(derive_seed(self.seed, "epoch", epoch)).shuffle(order)
        return order
