"""Episodes of an eval: a model plays one for each row and draw, all of them side by side, turn by turn.

Every round is written like any completions: what an attempt that was killed has kept is not written
again, since the same turns lead to the same observations.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from posttrain.runtime.context import Context
from posttrain.runtime.engines.kept import Completion, Prompt
from posttrain.runtime.engines.opening import written
from posttrain.runtime.engines.texts import as_text
from posttrain.runtime.engines.writing import Writer
from posttrain.runtime.environments import playing
from posttrain.runtime.environments.opening import opened
from posttrain.runtime.environments.phrasing import opened_with
from posttrain.runtime.environments.playing import Play, World
from posttrain.runtime.models.length import context_of
from posttrain.runtime.rewards.batch import EPISODES
from posttrain.spec.keys import digest

Row = dict[str, Any]
TRANSCRIPT = "transcript"
UNANSWERED = "unanswered"
# How an episode that did not come to its end is told beside completions that did not.
_FINISHES = {"length": "length", "error": "error"}


@dataclass
class _Seat:
    """An episode with what the model has read and said of it."""

    play: Play
    # What the model is asked next.
    prompt: Prompt
    # What it reads before its first turn, in tokens; None where nobody can count them.
    opening: int | None = None
    tokens: int = 0
    finish: str = "stop"


# Writes a completion of each prompt: by these sampling parameters, by this seed, for the round of this name.
Write = Callable[[Sequence[Prompt], Mapping[str, Any], int, str], list[list[Completion]]]


def played_by(
    context: Context,
    subject: Mapping[str, Any],
    writer: Writer,
    rows: Sequence[Row],
    prompts: Sequence[Prompt],
) -> list[Row]:
    """The episodes of a model that a stage asks, each turn kept as it comes."""

    def write(given: Sequence[Prompt], sampling: Mapping[str, Any], seed: int, name: str) -> Any:
        return written(context, subject, writer, given, sampling, seed=seed, name=name)

    return played(context, rows, prompts, write, _reader(context, subject))


def played(
    context: Context, rows: Sequence[Row], prompts: Sequence[Prompt], write: Write, reader: "Reader"
) -> list[Row]:
    """A row for each episode: the data's columns, what the model said, the transcript and the outcome."""
    world, draws = opened(context), context.params["sampling"]["samples"]
    try:
        each = [row for row in rows for _ in range(draws)]
        plays = playing.begin(world, each, context.params["seed"])
        asked = [prompt for prompt in prompts for _ in range(draws)]
        seats = [
            _seated(play, opened_with(prompt, play.first, world), reader)
            for play, prompt in zip(plays, asked, strict=True)
        ]
        table = _Table(context, world, write, reader)
        for number in range(world.turns):
            table.round([seat for seat in seats if seat.play.end is None], number)
    finally:
        world.place.close()
    return [
        {**row, "item": number // draws, **_outcome(world, seat)}
        for number, (row, seat) in enumerate(zip(each, seats, strict=True))
    ]


@dataclass(frozen=True)
class _Table:
    """What all rounds share."""

    context: Context
    world: World
    write: Write
    reader: "Reader"

    def round(self, seats: Sequence[_Seat], number: int) -> None:
        """One turn of each of these episodes that the model still has room for."""
        left = {id(seat): self._left(seat) for seat in seats}
        active = [seat for seat in seats if left[id(seat)] > 0]
        for seat in seats:
            if left[id(seat)] <= 0:
                playing.leave(self.world, seat.play, "length")
        longest = [min(self.world.turn_tokens or left[id(seat)], left[id(seat)]) for seat in active]
        found = self._written([seat.prompt for seat in active], max(longest), number) if active else []
        answered = [
            (seat, self.reader.cut(one, most))
            for seat, (one,), most in zip(active, found, longest, strict=True)
            if _taken(self.world, seat, one, most)
        ]
        playing.act(self.world, [seat.play for seat, _ in answered], [text for _, text in answered])
        for seat, text in answered:
            seat.prompt = self._continued(seat, text)

    def _left(self, seat: _Seat) -> int:
        """The tokens that an episode may still have. Of what an endpoint reads nobody knows the tokens: only
        its own are counted."""
        most = self.context.params["sampling"]["max_tokens"]
        if seat.opening is None:
            return most - seat.tokens
        room = min(most, self.reader.context - seat.opening)
        return room - (self.reader.count(seat.prompt) - seat.opening)

    def _written(self, prompts: Sequence[Prompt], longest: int, number: int) -> list[list[Completion]]:
        """A completion of each prompt, drawn by a seed of this round."""
        sampling = {**self.context.params["sampling"], "samples": 1, "max_tokens": longest}
        seed = int(digest([self.context.params["seed"], "turn", number])[:12], 16)
        return self.write(prompts, sampling, seed, f"-turn{number}")

    def _continued(self, seat: _Seat, text: str) -> Prompt:
        said = seat.play.said[-1]
        observation = said["content"] if said["role"] == "user" else ""
        if isinstance(seat.prompt, str):
            return seat.prompt + text + self.reader.end + self.world.replied(observation)
        told = {"role": "user", "content": observation}
        return [*seat.prompt, {"role": "assistant", "content": text}, told]


def _seated(play: Play, prompt: Prompt, reader: "Reader") -> _Seat:
    return _Seat(play, prompt, None if reader.tokenizer is None else reader.count(prompt))


def _taken(world: World, seat: _Seat, one: Completion, most: int) -> bool:
    """Note a turn; an episode whose model has not answered ends without a score."""
    seat.finish = one.finish
    seat.tokens += min(one.tokens or 0, most)
    if one.text is None:
        playing.leave(world, seat.play, UNANSWERED, one.error)
    return one.text is not None


@dataclass(frozen=True)
class Reader:
    """What is known of how a model reads: the end of a turn in plain text, and how much it takes in."""

    tokenizer: Any = None
    context: int = 0

    @property
    def end(self) -> str:
        """The token by which the model has ended its turn, as text."""
        return "" if self.tokenizer is None else self.tokenizer.eos_token or ""

    def count(self, prompt: Prompt) -> int:
        return len(self.tokenizer(as_text(prompt, self.tokenizer), add_special_tokens=False)["input_ids"])

    def cut(self, one: Completion, most: int) -> str:
        """A turn within its length: all are written together, as long as the longest may be."""
        text = one.text or ""
        if self.tokenizer is None or (one.tokens or 0) <= most:
            return text
        tokens = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return self.tokenizer.decode(tokens[:most], skip_special_tokens=True)


def _reader(context: Context, subject: Mapping[str, Any]) -> Reader:
    """An endpoint says nothing of itself, and answers what is too long with an error."""
    if "endpoint" in subject:
        return Reader()
    from transformers import AutoConfig

    from posttrain.runtime.models import adapters
    from posttrain.runtime.models.load import load_tokenizer

    folder = whole = context.inputs[subject["role"]]
    while adapters.is_adapter(whole):
        whole = adapters.base_of(whole)
    config = AutoConfig.from_pretrained(whole, trust_remote_code=False, local_files_only=True)
    return Reader(load_tokenizer(folder), context_of(SimpleNamespace(config=config)))


def _outcome(world: World, seat: _Seat) -> Row:
    unanswered = seat.play.end == UNANSWERED
    finish = seat.finish if unanswered else _FINISHES.get(str(seat.play.end), "stop")
    return {
        "completion": None if unanswered else playing.words(seat.play),
        "tokens": seat.tokens,
        "finish": finish,
        TRANSCRIPT: playing.transcript(seat.play),
        EPISODES: playing.told(world, seat.play),
    }
