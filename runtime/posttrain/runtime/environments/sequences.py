"""Episodes as tokens, for methods that learn from them: who wrote each token, the model or its place.

The model that is trained writes every turn by whatever its trainer writes with: a `Scribe`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from posttrain.runtime.environments import playing
from posttrain.runtime.environments.phrasing import Phrasing
from posttrain.runtime.environments.playing import Play, World
from posttrain.runtime.faults import StepFault
from posttrain.runtime.launch.group import any_of

# What was written after each of several beginnings, and how likely each token was, where that is known.
Turns = tuple[list[list[int]], list[list[float]] | None]


class Scribe(Protocol):
    """Has turns written by the model that is trained."""

    @property
    def tokenizer(self) -> Any: ...

    @property
    def ends(self) -> Sequence[int]:
        """The tokens after which the model says no more."""
        ...

    @property
    def longest(self) -> int:
        """How many tokens an episode may have after its prompt."""
        ...

    @property
    def context(self) -> int:
        """The longest sequence that the model takes."""
        ...

    def write(self, given: list[list[int]], limit: int) -> Turns:
        """What the model writes after these tokens, with at most so many new ones."""
        ...


@dataclass
class Acted:
    """An episode as tokens."""

    play: Play
    prompt: list[int]
    # How many tokens there may be after the prompt.
    room: int
    tokens: list[int] = field(default_factory=list[int])
    # 1 for a token of the model's, 0 for one that it was told.
    own: list[int] = field(default_factory=list[int])
    chances: list[float] = field(default_factory=list[float])

    @property
    def left(self) -> int:
        return self.room - len(self.tokens)

    def add(self, tokens: Sequence[int], own: int, chances: Sequence[float] | None = None) -> None:
        self.tokens += tokens
        self.own += [own] * len(tokens)
        self.chances += chances or [0.0] * len(tokens)


@dataclass(frozen=True)
class Told:
    """Episodes that have been played."""

    acted: list[Acted]
    # What rewards and tables read of each.
    outcomes: list[dict[str, Any]]
    # Whether the chances of the tokens are known.
    weighed: bool


def played(world: World, seed: int, rows: Sequence[Any], prompts: Sequence[Any], scribe: Scribe) -> Told:
    """Play an episode for each row, all of them side by side, until the last one is over."""
    plays = playing.begin(world, rows, seed)
    phrasing = Phrasing(scribe.tokenizer, scribe.ends, world)
    acted = [_begun(phrasing, p, play, scribe) for p, play in zip(prompts, plays, strict=True)]
    weighed = False
    while any_of(any(one.play.end is None for one in acted)):
        weighed = _round(world, phrasing, acted, scribe) or weighed
    for one in acted:
        if not one.tokens:  # its environment failed before the model's first turn
            one.add([scribe.tokenizer.eos_token_id], 0)
    return Told(acted, [playing.told(world, one.play) for one in acted], weighed)


def _begun(phrasing: Phrasing, prompt: Any, play: Play, scribe: Scribe) -> Acted:
    tokens = phrasing.opening(prompt, play.first)
    room = min(scribe.longest, scribe.context - len(tokens))
    if room < 1:
        raise StepFault(
            f"a prompt with its first observation has {len(tokens)} tokens, which leaves no room in the"
            f" model's context of {scribe.context}",
            "shorten the prompts, or take a model with a longer context",
        )
    return Acted(play=play, prompt=tokens, room=room)


def _round(world: World, phrasing: Phrasing, acted: list[Acted], scribe: Scribe) -> bool:
    """A turn of every episode that goes on; whether the engine told the chances of its tokens.

    Where several processes share a model, all of them write as long as one has something to write.
    """
    active = [one for one in acted if one.play.end is None]
    longest = [min(world.turn_tokens or one.left, one.left) for one in active]
    given = [one.prompt + one.tokens for one in active] or [acted[0].prompt]
    found, chances = scribe.write(given, max(longest, default=1))
    texts: list[str] = []
    for place, one in enumerate(active):
        turn = found[place][: one.left]
        one.add(turn, 1, chances[place][: len(turn)] if chances else None)
        texts.append(phrasing.text(turn))
    playing.act(world, [one.play for one in active], texts)
    for one in active:
        _reply(world, phrasing, one)
    return chances is not None


def _reply(world: World, phrasing: Phrasing, one: Acted) -> None:
    """Tell the model what came of its turn, if there is room for that and for another turn."""
    if one.play.end is not None:
        # Over all the same: what ends without an end token counts as cut short.
        one.add(phrasing.ended(one.tokens[-1])[: one.left], 0)
        return
    tokens = phrasing.reply(one.play, one.tokens[-1])
    if len(tokens) < one.left:
        one.add(tokens, 0)
    else:
        playing.leave(world, one.play, "length")
