"""Samples completions from a stage's product or latest checkpoint, and reports statistics and warnings."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posttrain.runtime.catalog import CATALOG
from posttrain.runtime.errors import StepError
from posttrain.runtime.rows_io import read_rows
from posttrain.runtime.step_context import StepContext
from posttrain.runtime.store import checkpoints
from posttrain.spec.extension import Method
from posttrain.spec.step_params.generation_params import SamplingOptions
from posttrain.spec.step_params.train_params import TrainStepParams

Row = Mapping[str, Any]
# The reward op whose operands are tags; the probe counts the completions that contain each of them.
_TAG_OP = "between"
_USUAL_SAMPLING: dict[str, Any] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "max_completion_length": 256,
}


@dataclass(frozen=True, kw_only=True)
class ProbeOptions:
    """Sample sizes and sampling settings of a probe."""

    rows: int = 8
    samples: int = 4
    temperature: float | None = None
    max_tokens: int | None = None


def probe(
    context: StepContext[TrainStepParams], product: Path | None, options: ProbeOptions
) -> dict[str, Any]:
    """Sample completions for the first rows of the stage's data; return statistics, warnings and samples."""
    from posttrain.runtime.engines.transformers_generator import generate
    from posttrain.runtime.evaluation.score_completions import completion_rows, score_rows
    from posttrain.runtime.models.context_length import context_length
    from posttrain.runtime.trl_compat.bounded_templates import bound_chat_templates

    bound_chat_templates()
    from posttrain.runtime.models.model_loader import load_checkpoint, load_model, load_tokenizer
    from posttrain.runtime.prompt_tokenization import tokenize_prompts
    from posttrain.runtime.prompts import build_prompts

    _check_generative(context)
    source = product or _latest_checkpoint(context)
    tokenizer = load_tokenizer(source)
    model = load_model(source) if product else load_checkpoint(context, source)
    rows = read_rows(context.inputs["data"], context.part("data"))[: options.rows]
    if not rows or "prompt" not in rows[0]:
        raise StepError(
            "the stage's data has no column `prompt`", "probe a stage whose data has the column `prompt`"
        )
    prompts = build_prompts(context, tokenizer, rows)
    room = context_length(model) - max(map(len, tokenize_prompts(prompts, tokenizer)))
    if room < 1:
        message = f"the longest prompt fills the model's context of {context_length(model)} tokens"
        raise StepError(message, "filter out long prompts in the dataset's steps")
    sampling = probe_sampling(context.params.params, options, room)
    seed = context.params.seed
    completions = generate(model, tokenizer, prompts, sampling, seed, lambda _done, _total: None)
    flat = completion_rows(rows, completions)
    graph = _reward_graph(context)
    if graph is not None:
        score_rows(flat, graph)
    shown = graph.named_nodes if graph is not None else []
    statistics = probe_statistics(
        flat, shown, graph.returns if graph is not None else None, reward_tags(context)
    )
    return {
        "from": "product" if product else source.name,
        "sampling": sampling.model_dump(),
        **statistics,
        "warnings": list(_warnings(statistics)),
        "samples": [_format_sample(row, shown) for row in flat],
    }


def _check_generative(context: StepContext[TrainStepParams]) -> None:
    method = CATALOG.find("method", context.params.method)
    if isinstance(method, Method) and method.product == "scorer":
        message = f"`{method.name}` trains a scorer, which does not generate completions"
        raise StepError(message, "score rows with `recipe reward` and a reward that uses the stage")


def _reward_graph(context: StepContext[TrainStepParams]) -> Any:
    from posttrain.runtime.rewards.engine.graph import Graph

    return Graph.from_step(context) if context.params.reward is not None else None


def _latest_checkpoint(context: StepContext[TrainStepParams]) -> Path:
    step = checkpoints.latest_step(context.checkpoints)
    if step is None:
        raise StepError(
            "the stage has no checkpoint yet", "wait for the first checkpoint, or probe an earlier stage"
        )
    return context.checkpoints / f"checkpoint-{step}"


def probe_sampling(hyperparameters: Mapping[str, Any], options: ProbeOptions, room: int) -> SamplingOptions:
    """Return the sampling settings: those of the stage if it generates, unless an option overrides them.

    The length is limited to `room` tokens.
    """
    # Only methods that generate have these parameters. None means the default.
    usual: dict[str, Any] = _USUAL_SAMPLING | {
        name: hyperparameters[name] for name in _USUAL_SAMPLING if hyperparameters.get(name) is not None
    }
    return SamplingOptions(
        temperature=usual["temperature"] if options.temperature is None else options.temperature,
        top_p=usual["top_p"],
        top_k=usual["top_k"],
        min_p=usual["min_p"],
        repetition_penalty=1.0,
        max_tokens=min(options.max_tokens or usual["max_completion_length"], room),
        n=options.samples,
        batch_size=64,
        stop=(),
        continuous_batching=False,
    )


def reward_tags(context: StepContext[TrainStepParams]) -> list[str]:
    """Return the tags that the stage's reward searches for."""
    nodes = context.params.reward.nodes if context.params.reward else ()
    found = [node.params.get(side) for node in nodes if node.op == _TAG_OP for side in ("open", "close")]
    return list(dict.fromkeys(tag for tag in found if isinstance(tag, str)))


def probe_statistics(
    flat: Sequence[Row], shown: Sequence[str], returns: str | None, tags: Sequence[str]
) -> dict[str, Any]:
    """Return shares and means over sampled completions; rows with the same `item` answer the same prompt."""
    texts = [row["completion"] for row in flat]
    groups = list(_group_by_prompt(flat).values())
    return {
        "completions": len(flat),
        "prompts": len(groups),
        "ended": _share(row["finish"] == "stop" for row in flat),
        "distinct": _mean([len({row["completion"] for row in group}) / len(group) for group in groups]),
        "tokens": _mean([row["tokens"] for row in flat]),
        "tags": {tag: _share(tag in text for text in texts) for tag in tags},
        "nodes": {name: _node_statistics(name, flat, groups) for name in shown},
        "varied": None if returns is None else _share(_varies(returns, group) for group in groups),
        "commonest": Counter(texts).most_common(1)[0][1] / len(flat),
    }


def _group_by_prompt(flat: Sequence[Row]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    for row in flat:
        found.setdefault(row["item"], []).append(row)
    return found


def _node_statistics(name: str, flat: Sequence[Row], groups: Sequence[Sequence[Row]]) -> dict[str, Any]:
    """Return a node's mean, and its standard deviation over all completions and within a prompt."""
    values = _numeric_scores(name, flat)
    within = [
        _standard_deviation(_numeric_scores(name, group)) for group in groups if _numeric_scores(name, group)
    ]
    return {
        "mean": _mean(values) if values else None,
        "std": _standard_deviation(values) if values else None,
        "std_within_prompt": _mean(within) if within else None,
        "unscored": 1 - len(values) / len(flat),
    }


def _numeric_scores(name: str, rows: Sequence[Row]) -> list[float]:
    values = [row[f"node:{name}"] for row in rows]
    return [float(value) for value in values if isinstance(value, int | float)]


def _varies(name: str, group: Sequence[Row]) -> bool:
    return len(set(_numeric_scores(name, group))) > 1


def _warnings(statistics: Mapping[str, Any]) -> Iterator[str]:
    if statistics["ended"] == 0:
        yield "every completion was truncated at the length limit"
    if statistics["completions"] > statistics["prompts"] and statistics["commonest"] == 1.0:
        yield "all completions are identical"
    elif (
        statistics["completions"] > statistics["prompts"]
        and statistics["distinct"] * statistics["completions"] == statistics["prompts"]
    ):
        yield "the completions of each prompt are identical: there is no difference to train on"
    for tag, share in statistics["tags"].items():
        if share == 0:
            yield f"no completion contains {tag}"
    if statistics["varied"] == 0:
        yield "all completions of each prompt have the same reward: there is no learning signal"


def _format_sample(row: Row, shown: Sequence[str]) -> dict[str, Any]:
    return {
        "prompt": row["prompt"],
        "completion": row["completion"],
        "finish": row["finish"],
        "values": {name: row[f"node:{name}"] for name in shown},
    }


def _share(flags: Any) -> float:
    return _mean([float(flag) for flag in flags])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _standard_deviation(values: Sequence[float]) -> float:
    middle = _mean(values)
    return (sum((value - middle) ** 2 for value in values) / len(values)) ** 0.5
