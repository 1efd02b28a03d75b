"""PPO itself: writes and judges a set of completions when one is due, and gives each step its loss."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from posttrain.runtime.ppo.acting import Policy, Stage, act
from posttrain.runtime.ppo.arithmetic import adapted
from posttrain.runtime.ppo.experience import Experience, Judged, Terms, experience
from posttrain.runtime.ppo.likelihood import likelihood
from posttrain.runtime.ppo.losses import policy_loss, value_loss
from posttrain.runtime.ppo.pair import layers_of, states, writer_of
from posttrain.runtime.ppo.turns import Turns, drawn
from posttrain.runtime.ppo.writing import Written, as_text, write
from posttrain.runtime.rewards.batch import EPISODES

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Ways:
    """How the policy writes and learns, as the recipe's parameters say."""

    sampling: dict[str, Any]
    low: float
    high: float
    value_epsilon: float
    value_weight: float
    entropy: float
    target: float | None
    horizon: int


class Learner:
    """Holds the completions that are being learnt from, and the weight of the divergence."""

    def __init__(
        self,
        trainer: Any,
        turns: Turns,
        ways: Ways,
        terms: Terms,
        rows: Sequence[Row],
        reference: Any,
        score: Callable[..., list[float | None]],
        stage: Stage | None = None,
    ) -> None:
        self._trainer = trainer
        self._turns = turns
        self._ways = ways
        self._terms = terms
        self._rows = rows
        self._reference = None if reference is None else reference.to(trainer.args.device)
        self._score = score
        self._stage = stage
        self._held: tuple[int, Experience] | None = None
        # Figures of the step under way, each a sum over its micro-batches, and what is told once.
        self._sums: dict[str, float] = {}
        self.told: dict[str, float] = {}
        self._tokens = 0
        self.beta = terms.beta

    def loss(self, model: Any, number: int) -> Any:
        """The part of a step's loss that a micro-batch has; the parts add up to the step's."""
        turn = self._turns.at(number)
        if self._held is None or self._held[0] != turn.generation:
            self._held = (turn.generation, self._experience(turn.generation))
        held = self._held[1]
        whole = self._terms.total(held.mask[turn.step_places].sum()).clamp(min=1)
        part = held.at(turn.places)
        self._tokens += int(part.attention.sum())
        logprobs, values, entropies = model(part.tokens, part.attention, part.count)
        return self._weighed(part, logprobs, values, entropies, part.mask / whole)

    def logged(self) -> dict[str, float]:
        """The figures since the last call."""
        found = {**self.told, **self._sums, "num_tokens": float(self._tokens * self._turns.processes)}
        self.told, self._sums = {}, {}
        return found

    def _weighed(self, part: Experience, logprobs: Any, values: Any, entropies: Any, share: Any) -> Any:
        """The loss of a micro-batch, where `share` is each token's share of the whole step."""
        ways = self._ways
        policy, cut = policy_loss(logprobs, part.logprobs, part.advantages, ways.low, ways.high)
        value, held = value_loss(values, part.values, part.returns, ways.value_epsilon)
        sums = {
            "loss/policy": (policy * share).sum(),
            "loss/values": (value * share).sum(),
            "entropy/now": (entropies * share).sum(),
            "clip_ratio": (cut * share).sum(),
            "values/clip_ratio": (held * share).sum(),
            "kl/moved": ((part.logprobs - logprobs) * share).sum(),
        }
        processes = self._turns.processes  # of which the figures are the mean
        for name, one in sums.items():
            self._sums[name] = self._sums.get(name, 0.0) + float(one.detach()) * processes
        loss = sums["loss/policy"] + ways.value_weight * sums["loss/values"]
        return loss if ways.entropy == 0 else loss - ways.entropy * sums["entropy/now"]

    def _experience(self, generation: int) -> Experience:
        pair = self._trainer.pair
        training = pair.training
        pair.eval()
        with self._trainer.accelerator.autocast():
            judged = self._judged(generation, *self._written(generation))
        pair.train(training)
        made, figures = experience(judged, replace(self._terms, beta=self.beta))
        self.told |= figures
        if self._reference is not None:
            self.told["beta"] = self.beta
            self._adapt(judged, figures["kl_of_completion"])
        return made

    def _adapt(self, judged: Judged, found: float) -> None:
        """Move the weight of the divergence towards the one that keeps it where it is wanted."""
        if self._ways.target is None:
            return
        rows = judged.values.new_tensor([found * len(judged.scores), float(len(judged.scores))])
        diverged, count = (float(one) for one in self._terms.total(rows))
        self.beta = adapted(self.beta, diverged / count, self._ways.target, int(count), self._ways.horizon)

    def _written(self, generation: int) -> tuple[Written, dict[str, Any]]:
        """What the policy has written, and what rewards read of it beside the rows."""
        turns, tokenizer = self._turns, self._trainer.processing_class
        rows = [self._rows[row] for row in turns.prompts(generation)]
        seed = drawn(turns.seed, "completions", generation, turns.rank)
        policy, device = self._trainer.pair.policy, self._trainer.args.device
        if self._stage is not None:
            by = Policy(policy, tokenizer, self._ways.sampling, seed, device)
            written, outcomes = act(self._stage, by, rows, device)
            return written, {EPISODES: outcomes}
        asked = [as_text(row["prompt"], tokenizer) for row in rows]
        return write(policy, tokenizer, asked, self._ways.sampling, seed, device), {}

    def _judged(self, generation: int, written: Written, beside: Mapping[str, Any]) -> Judged:
        rows = [self._rows[row] for row in self._turns.prompts(generation)]
        columns = {name: [row[name] for row in rows] for name in rows[0]} | dict(beside)
        texts = written.texts(self._trainer.processing_class)
        scores = self._score(columns.pop("prompt"), texts, completion_ids=written.own(), **columns)
        logprobs, values, entropies = self._seen(written, self._trainer.pair)
        reference = None if self._reference is None else self._seen(written, self._likelihood)[0]
        return Judged(
            written=written,
            logprobs=logprobs,
            values=values,
            entropies=entropies,
            reference=reference,
            scores=scores,
        )

    def _seen(self, written: Written, model: Callable[..., Sequence[Any]]) -> list[Any]:
        """What a model finds in all completions, a micro-batch at a time."""
        import torch

        size = self._turns.micro_batch
        with torch.no_grad():
            parts = [
                model(tokens, attention, written.count)
                for tokens, attention in zip(
                    written.tokens.split(size), written.attention.split(size), strict=True
                )
            ]
        return [torch.cat(found) for found in zip(*parts, strict=True)]

    def _likelihood(self, tokens: Any, attention: Any, count: int) -> Sequence[Any]:
        """What the reference finds."""
        found = states(layers_of(self._reference), tokens, attention, count)
        wanted, writer = tokens[:, -count:], writer_of(self._reference)
        return likelihood(found, wanted, writer, self._ways.sampling["temperature"])
