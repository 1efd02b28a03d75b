"""A reward graph as the one reward function of a TRL trainer."""

from collections.abc import Callable
from typing import Any

from posttrain.runtime.rewards.graph import Graph, mean
from posttrain.runtime.training.loop import Loop

_SAMPLES = 2  # completions a step that the report shows


def reward_function(graph: Graph, loop: Loop, group: int) -> Callable[..., list[float | None]]:
    """Scores completions by the graph, and notes what each of its nodes gave."""

    def reward(prompts: list[Any], completions: list[Any], **columns: Any) -> list[float | None]:
        texts = [_text(completion) for completion in completions]
        given = {"completion": texts, **{name: columns[name] for name in graph.columns}}
        values = graph.evaluate(given)
        scores = values[graph.returns]
        _note(graph, values, loop)
        every = max(1, loop.planned.steps // 20)
        if loop.step % every == 0:
            for row in range(min(_SAMPLES, len(texts))):
                shown = {name: values[name][row] for name in graph.shown}
                prompt = _text(prompts[row])
                loop.context.events.emit(
                    "sample", step=loop.step, prompt=prompt, completion=texts[row], values=shown
                )
        return _filled(scores, group)

    return reward


def _note(graph: Graph, values: dict[str, list[Any]], loop: Loop) -> None:
    for name in graph.shown:
        numbers = [v for v in values[name] if isinstance(v, int | float)]
        average = mean(numbers)
        if average is not None:
            loop.rewards[f"reward/{name}"] = average
    missing = sum(value is None for value in values[graph.returns])
    loop.rewards["unscored"] = missing / len(values[graph.returns])


def _filled(scores: list[float | None], group: int) -> list[float | None]:
    """Unscored completions get the mean of their group: nothing is learnt from them."""
    filled: list[float | None] = []
    for start in range(0, len(scores), group):
        members = scores[start : start + group]
        middle = mean(members) or 0.0
        filled += [middle if score is None else float(score) for score in members]
    return filled


def _text(turns: Any) -> str:
    """The text of a prompt or completion, which may be a list of messages."""
    if isinstance(turns, str):
        return turns
    return "".join(str(turn["content"]) for turn in turns)
