"""Samples completions of models on data, scores them by a reward graph, and gives the metrics.

completions.parquet    a row a completion: the data's columns, the text, every node's value
metrics.json           each metric with its interval and how many items it is made from
breakdowns.json        the metrics for each value of the columns under `by`
comparisons.json       every two models, item by item
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.runtime import durable
from posttrain.runtime.context import Context
from posttrain.runtime.engines.opening import opened, written
from posttrain.runtime.evals import tables
from posttrain.runtime.evals.scoring import beside, score
from posttrain.runtime.faults import StepFault
from posttrain.runtime.products import read_rows, write_rows

_LONGEST_REASON = 200
_SHOWN = 40  # samples of each model that the report gets
_MOST_TOLD = 100  # breakdowns that the report gets
_RATED = {rate["node"] for rate in tables.RATES.values()}
Row = dict[str, Any]
# The scored completions of each model, by its name.
Models = Mapping[str, Sequence[Row]]


def evaluate(context: Context) -> None:
    """The whole of an eval step."""
    rows = read_rows(context.inputs["data"], context.part("data"))
    if not rows:
        raise StepFault("there are no rows to measure", "look at the dataset's steps")
    models = {subject["name"]: _scored(context, subject, rows) for subject in context.params["subjects"]}
    wanted: tables.Metrics = {}
    for flat in models.values():
        wanted = tables.add_passes(flat, {**tables.RATES, **context.params["metrics"]})
    metrics, breakdowns = _metrics(context, models, wanted), _breakdowns(context, models, wanted)
    comparisons = tables.compared_models(models, wanted, context.params["seed"])
    scored = [{"model": model, **row} for model, flat in models.items() for row in flat]
    write_rows(context.out / "completions.parquet", scored)
    durable.write_json(context.out / "metrics.json", metrics)
    durable.write_json(context.out / "breakdowns.json", breakdowns)
    durable.write_json(context.out / "comparisons.json", comparisons)
    told = {name: metric for name, metric in metrics.items() if metric["node"] not in _RATED}
    context.facts.update(metrics=told, comparisons=comparisons, breakdowns=breakdowns[:_MOST_TOLD])
    _tell(context, models)


def _metrics(context: Context, models: Models, wanted: tables.Metrics) -> dict[str, dict[str, Any]]:
    """Every metric, under its own name, or under MODEL.METRIC where several models are measured."""
    found: dict[str, dict[str, Any]] = {}
    for model, flat in models.items():
        for name, metric in tables.measured(flat, wanted, context.params["seed"]).items():
            if context.params["several"]:
                found[f"{model}.{name}"] = {**metric, "model": model}
            else:
                found[name] = metric
    return found


def _breakdowns(context: Context, models: Models, wanted: tables.Metrics) -> list[dict[str, Any]]:
    by, seed = context.params["by"], context.params["seed"]
    return [
        {"model": model, **told}
        for model, flat in models.items()
        for told in tables.broken_down(flat, wanted, by, seed)
    ]


def _scored(context: Context, subject: Mapping[str, Any], rows: list[Row]) -> list[Row]:
    """A row for each completion of one model, with every node's value under `node:NAME`."""
    from posttrain.runtime.prompts import prompts_of
    from posttrain.runtime.rewards.graph import Graph

    params = context.params
    with opened(context, subject) as writer:
        prompts = prompts_of(context, writer, rows)
        context.events.emit("phase", name=_phase("generating", context, subject))
        if params.get("environment") is not None:
            from posttrain.runtime.environments.episodes import played_by

            flat = played_by(context, subject, writer, rows, prompts)
        else:
            found = written(context, subject, writer, prompts, params["sampling"], seed=params["seed"])
            flat = beside(rows, found)
    context.events.emit("phase", name=_phase("scoring", context, subject))
    graph = Graph.of_step(context)
    score(flat, graph)
    tables.add_rates(flat, graph.returns)
    context.facts["nodes"] = graph.shown
    context.facts["returns"] = graph.returns
    return flat


def _phase(name: str, context: Context, subject: Mapping[str, Any]) -> str:
    return f"{name} {subject['name']}" if context.params["several"] else name


def _tell(context: Context, models: Models) -> None:
    """Samples, shares and warnings for those who watch, and for the report."""
    nodes = context.facts["nodes"]
    for model, flat in models.items():
        for row in flat[:_SHOWN]:
            transcript = {"transcript": row["transcript"]} if row.get("transcript") else {}
            context.events.emit(
                "sample",
                step=0,
                prompt=_text(row.get("prompt")),
                completion=row["completion"] or "",
                values={name: row[f"node:{name}"] for name in nodes},
                model=model,
                **transcript,
            )
    rates = {model: _shares(flat) for model, flat in models.items()}
    every = [row for flat in models.values() for row in flat]
    context.facts.update(rates=rates, completions=len(every), **_shares(every))
    for model, shares in rates.items():
        _warn(context, model, shares)
        _warn_of_unscored(context, model, [row for row in models[model] if row["completion"] is not None])


def _shares(flat: Sequence[Row]) -> dict[str, float]:
    """The shares of the completions that were cut, that have no score, and that never came."""
    cut = sum(row["finish"] == "length" for row in flat)
    unscored = sum(row["node:is unscored"] for row in flat)
    late = sum(row["finish"] == "timeout" for row in flat)
    lost = sum(row["completion"] is None for row in flat) - late
    named = {"cut": cut, "unscored": unscored, "timed_out": late, "failed": lost}
    return {name: count / len(flat) for name, count in named.items()}


def _warn(context: Context, model: str, shares: Mapping[str, float]) -> None:
    lost = shares["timed_out"] + shares["failed"]
    if lost:
        context.events.emit(
            "warning",
            message=f"{lost:.1%} of the completions of {model} never came; they count as unscored",
            advice="the column `finish` of completions.parquet tells which; the log of the endpoint, why",
        )
    if shares["cut"] > 0.5:
        context.events.emit(
            "warning",
            message=f"{shares['cut']:.0%} of the completions were cut at their longest length",
            advice="raise sampling.max_tokens, or teach the model to end",
        )


def _warn_of_unscored(context: Context, model: str, flat: Sequence[Row]) -> None:
    """Completions without a score, with the reason that is given most often."""
    unscored = [row for row in flat if row["node:is unscored"]]
    reasons = Counter(
        f"{name}: {row[f'reason:{name}']}"
        for row in unscored
        for name in context.facts["nodes"]
        if row[f"node:{name}"] is None and row.get(f"reason:{name}")
    )
    if unscored:
        why = f"; most often {reasons.most_common(1)[0][0][:_LONGEST_REASON]}" if reasons else ""
        context.events.emit(
            "warning",
            message=f"{len(unscored)} of {len(flat)} completions of {model} have no score{why}",
            advice="the columns `reason:NODE` of completions.parquet tell why; they count for no metric",
        )


def _text(prompt: Any) -> str:
    return prompt if isinstance(prompt, str) else "\n".join(turn["content"] for turn in prompt or ())
