"""Wraps a reward graph as the reward function of a trainer."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

from posttrain.runtime.chat_prompts import TEMPLATE_COLUMNS
from posttrain.runtime.errors import StepError
from posttrain.runtime.models.eos_tokens import eos_token_ids
from posttrain.runtime.rewards.engine.batch import EPISODES, TOKENS
from posttrain.runtime.rewards.engine.graph import Graph, Scores, mean_of_present
from posttrain.runtime.rewards.engine.reward_trace import RewardTrace
from posttrain.runtime.training.training_loop import TrainingLoop
from posttrain.spec.messages import turn_text

_SAMPLES_PER_STEP = 2  # completions per step in the report
_UNSCORED_BATCHES = 3  # consecutive batches without any score after which the stage fails


def reward_function(graph: Graph, loop: TrainingLoop, group: int) -> Callable[..., list[float | None]]:
    """Return the reward function for a trainer that compares the completions within a group."""
    score = score_function(graph, loop)

    def reward(prompts: list[Any], completions: list[Any], **columns: Any) -> list[float | None]:
        return _fill_unscored(score(prompts, completions, **columns), group)

    return reward


def score_function(graph: Graph, loop: TrainingLoop) -> Callable[..., list[float | None]]:
    """Return a function that scores completions with the graph and records the value of every node.

    A score of None means that the completion could not be scored.
    """
    unscored = 0
    batches = math.ceil(loop.schedule.steps / loop.schedule.checkpoint_alignment)
    enough = min(_UNSCORED_BATCHES, batches)
    trace = RewardTrace(loop.context.work / "record" / "trace")
    ends = set(eos_token_ids(loop.starting_model.model, loop.starting_model.tokenizer))

    def score(prompts: list[Any], completions: list[Any], **columns: Any) -> list[float | None]:
        nonlocal unscored
        texts = [_plain_text(completion) for completion in completions]
        columns_read = {"completion": texts, **_graph_columns(graph, {**columns, "prompt": prompts})}
        columns_read[TOKENS] = _completion_lengths(columns["completion_ids"], ends)
        groups = prompt_groups(_whole_prompts(prompts, columns))
        if EPISODES in columns:
            # The decoded tokens of an episode include the observations, which are not the model's own text.
            columns_read |= {
                EPISODES: columns[EPISODES],
                "completion": [one["words"] for one in columns[EPISODES]],
            }
            groups = prompt_groups([one["seed"] for one in columns[EPISODES]])
        scores = graph.evaluate(columns_read, groups)
        rewards = scores.values[graph.returns]
        unscored = unscored + 1 if all(value is None for value in rewards) else 0
        if unscored == enough:
            message = _unscored_message(graph, scores, enough)
            raise StepError(message, "check the columns that the reward reads, and its nodes")
        loop.rewards |= score_statistics(graph, scores)
        trace.write(loop.step, [_plain_text(prompt) for prompt in prompts], texts, graph, scores)
        if loop.step % max(1, loop.schedule.steps // 20) == 0:
            _emit_samples(graph, loop, prompts, texts, scores)
        return rewards

    return score


def _completion_lengths(completions: Sequence[Sequence[int]], ends: Collection[int]) -> list[int]:
    """Return the number of tokens of each completion, without its end token."""
    return [len(tokens) - (len(tokens) > 0 and tokens[-1] in ends) for tokens in completions]


def _graph_columns(graph: Graph, columns: dict[str, Any]) -> dict[str, Any]:
    """Return the columns that the graph reads. Text that became messages is converted back to text."""
    return {
        name: [_plain_text(value) for value in columns[name]]
        if graph.reads[name] == "text"
        else columns[name]
        for name in graph.columns
    }


def _whole_prompts(prompts: Sequence[Any], columns: dict[str, Any]) -> list[Any]:
    """The prompts with the tools and template arguments of their rows."""
    more = [columns[name] for name in TEMPLATE_COLUMNS if name in columns]
    return list(zip(prompts, *more, strict=True))


def prompt_groups(prompts: Sequence[Any]) -> list[int]:
    """Return a group number for each row. Consecutive rows with the same prompt form a group."""
    groups: list[int] = []
    for row, prompt in enumerate(prompts):
        follows = row > 0 and prompt == prompts[row - 1]
        groups.append(groups[-1] + (not follows) if groups else 0)
    return groups


def score_statistics(graph: Graph, scores: Scores) -> dict[str, float]:
    """Return the mean and standard deviation of each numeric node, and the share of rows without a value."""
    found: dict[str, float] = {}
    for name in graph.named_nodes:
        values = scores.values[name]
        numbers = [float(value) for value in values if isinstance(value, int | float)]
        average = mean_of_present(numbers)
        if average is not None:
            found[f"reward/{name}"] = average
            found[f"reward_std/{name}"] = (sum((n - average) ** 2 for n in numbers) / len(numbers)) ** 0.5
            missing = sum(value is None for value in values) / len(values)
            found |= {f"unscored/{name}": missing} if missing and name != graph.returns else {}
    values = scores.values[graph.returns]
    found["unscored"] = sum(value is None for value in values) / len(values)
    return found


def _unscored_message(graph: Graph, scores: Scores, batches: int) -> str:
    reasons_given = Counter(
        f"`{name}`: {reason}"
        for name, reasons in scores.reasons.items()
        for value, reason in zip(scores.values[name], reasons, strict=True)
        if value is None and reason
    )
    common = reasons_given.most_common(1)
    reason = f"; the most frequent reason is {common[0][0]}" if common else ""
    last = "batch" if batches == 1 else f"{batches} batches"
    return f"no completion of the last {last} has a score{reason}"


def _emit_samples(
    graph: Graph, loop: TrainingLoop, prompts: list[Any], texts: list[str], scores: Scores
) -> None:
    for row in range(min(_SAMPLES_PER_STEP, len(texts))):
        shown = {name: scores.values[name][row] for name in graph.named_nodes}
        prompt = _plain_text(prompts[row])
        loop.context.events.emit("sample", step=loop.step, prompt=prompt, completion=texts[row], values=shown)


def _fill_unscored(scores: list[float | None], group: int) -> list[float | None]:
    """Replace missing scores by the mean of their group, so that they have no advantage and no gradient."""
    filled: list[float | None] = []
    for start in range(0, len(scores), group):
        members = scores[start : start + group]
        middle = mean_of_present(members) or 0.0
        filled += [middle if score is None else float(score) for score in members]
    return filled


def _plain_text(turns: Any) -> Any:
    """Return the text of a prompt or completion, which may be a list of messages."""
    if not isinstance(turns, list):
        return turns
    return "".join(turn_text(turn) for turn in turns)
