"""Whose turn it is: which prompts a set of completions answers, and which of them a step learns from.

All of it follows from the seed and from how many steps there have been, so that a run which goes on
from a checkpoint draws what it would have drawn.
"""

import random
from dataclasses import dataclass

from posttrain.spec.keys import digest


def drawn(seed: int, *names: int | str) -> int:
    """A seed of its own for everything that is drawn."""
    return int(digest([seed, *names])[:15], 16)


@dataclass(frozen=True)
class Turn:
    """What one micro-batch is about."""

    # The number of the set of completions.
    generation: int
    # The optimizer step, of those that learn from this set.
    step: int
    # The places in the set that the whole optimizer step learns from, and the micro-batch.
    step_places: list[int]
    places: list[int]


@dataclass(frozen=True, kw_only=True)
class Turns:
    """The arithmetic of one process. `rows` is how many prompts there are."""

    seed: int
    rows: int
    micro_batch: int
    accumulation: int
    minibatches: int
    iterations: int
    rank: int = 0
    processes: int = 1

    @property
    def written(self) -> int:
        """Completions that this process writes at once."""
        return self.micro_batch * self.accumulation * self.minibatches

    def at(self, number: int) -> Turn:
        """The turn of a micro-batch, counted from the first one of the run."""
        step, micro = divmod(number, self.accumulation)
        generation, step = divmod(step, self.minibatches * self.iterations)
        iteration, minibatch = divmod(step, self.minibatches)
        order = list(range(self.written))
        random.Random(drawn(self.seed, "order", generation, iteration, self.rank)).shuffle(order)
        many = self.micro_batch * self.accumulation
        places = order[minibatch * many :][:many]
        return Turn(generation, step, places, places[micro * self.micro_batch :][: self.micro_batch])

    def prompts(self, generation: int) -> list[int]:
        """The rows whose prompts this process answers: all of them in a new order, again and again."""
        first = (generation * self.processes + self.rank) * self.written
        wanted = [divmod(place, self.rows) for place in range(first, first + self.written)]
        orders = {epoch: self._order(epoch) for epoch in {epoch for epoch, _ in wanted}}
        return [orders[epoch][place] for epoch, place in wanted]

    def _order(self, epoch: int) -> list[int]:
        order = list(range(self.rows))
        random.Random(drawn(self.seed, "epoch", epoch)).shuffle(order)
        return order
