"""Samples completions of models on data, scores them by a reward graph, and gives the metrics.

completions.parquet    a row a completion: the data's columns, the text, every node's value
metrics.json           each metric with its interval and how many items it is made from
breakdowns.json        the metrics for each value of the columns under `group_by`
comparisons.json       every two models, item by item
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.engines.engine_factory import generate_completions, open_engine
from posttrain.runtime.errors import StepError
from posttrain.runtime.evaluation import metric_tables
from posttrain.runtime.evaluation.score_completions import completion_rows, score_rows
from posttrain.runtime.rows_io import read_rows, write_rows
from posttrain.runtime.step_context import StepContext

_MAX_REASON_LENGTH = 200
_MAX_REPORTED_SAMPLES = 40  # samples of each model that the report gets
_MAX_REPORTED_BREAKDOWNS = 100  # breakdowns that the report gets
_RATE_NODES = {rate["node"] for rate in metric_tables.COMPLETION_RATES.values()}
Row = dict[str, Any]
# The scored completions of each model, by its name.
ScoredModels = Mapping[str, Sequence[Row]]


def run_eval(context: StepContext) -> None:
    """The whole of an eval step."""
    rows = read_rows(context.inputs["data"], context.part("data"))
    if not rows:
        raise StepError("there are no rows to measure", "look at the dataset's steps")
    models = {subject["name"]: _score_model(context, subject, rows) for subject in context.params["models"]}
    definitions: metric_tables.Metrics = {}
    for flat in models.values():
        definitions = metric_tables.add_pass_at_k(
            flat, {**metric_tables.COMPLETION_RATES, **context.params["metrics"]}
        )
    metrics, breakdowns = _metrics(context, models, definitions), _breakdowns(context, models, definitions)
    comparisons = metric_tables.compare_models(models, definitions, context.params["seed"])
    scored = [{"model": model, **row} for model, flat in models.items() for row in flat]
    write_rows(context.out / "completions.parquet", scored)
    atomic_io.write_json(context.out / "metrics.json", metrics)
    atomic_io.write_json(context.out / "breakdowns.json", breakdowns)
    atomic_io.write_json(context.out / "comparisons.json", comparisons)
    reported = {name: metric for name, metric in metrics.items() if metric["node"] not in _RATE_NODES}
    context.facts.update(
        metrics=reported, comparisons=comparisons, breakdowns=breakdowns[:_MAX_REPORTED_BREAKDOWNS]
    )
    _report(context, models)


def _metrics(
    context: StepContext, models: ScoredModels, definitions: metric_tables.Metrics
) -> dict[str, dict[str, Any]]:
    """Every metric, under its own name, or under MODEL.METRIC where several models are measured."""
    found: dict[str, dict[str, Any]] = {}
    for model, flat in models.items():
        for name, metric in metric_tables.measure_metrics(flat, definitions, context.params["seed"]).items():
            if context.params["multiple_models"]:
                found[f"{model}.{name}"] = {**metric, "model": model}
            else:
                found[name] = metric
    return found


def _breakdowns(
    context: StepContext, models: ScoredModels, definitions: metric_tables.Metrics
) -> list[dict[str, Any]]:
    by, seed = context.params["group_by"], context.params["seed"]
    return [
        {"model": model, **reported}
        for model, flat in models.items()
        for reported in metric_tables.compute_breakdowns(flat, definitions, by, seed)
    ]


def _score_model(context: StepContext, subject: Mapping[str, Any], rows: list[Row]) -> list[Row]:
    """A row for each completion of one model, with every node's value under `node:NAME`."""
    from posttrain.runtime.prompts import build_prompts
    from posttrain.runtime.rewards.engine.graph import Graph

    params = context.params
    with open_engine(context, subject) as writer:
        prompts = build_prompts(context, writer, rows)
        context.events.emit("phase", name=_phase("generating", context, subject))
        if params.get("environment") is not None:
            from posttrain.runtime.environments.eval_episodes import run_subject_episodes

            flat = run_subject_episodes(context, subject, writer, rows, prompts)
        else:
            found = generate_completions(
                context, subject, writer, prompts, params["sampling"], seed=params["seed"]
            )
            flat = completion_rows(rows, found)
    context.events.emit("phase", name=_phase("scoring", context, subject))
    graph = Graph.from_step(context)
    score_rows(flat, graph)
    metric_tables.add_rates(flat, graph.returns)
    context.facts["nodes"] = graph.named_nodes
    context.facts["returns"] = graph.returns
    return flat


def _phase(name: str, context: StepContext, subject: Mapping[str, Any]) -> str:
    return f"{name} {subject['name']}" if context.params["multiple_models"] else name


def _report(context: StepContext, models: ScoredModels) -> None:
    """Samples, shares and warnings for those who watch, and for the report."""
    nodes = context.facts["nodes"]
    for model, flat in models.items():
        for row in flat[:_MAX_REPORTED_SAMPLES]:
            transcript = {"transcript": row["transcript"]} if row.get("transcript") else {}
            context.events.emit(
                "sample",
                step=0,
                prompt=_prompt_text(row.get("prompt")),
                completion=row["completion"] or "",
                values={name: row[f"node:{name}"] for name in nodes},
                model=model,
                **transcript,
            )
    rates = {model: _completion_rates(flat) for model, flat in models.items()}
    every = [row for flat in models.values() for row in flat]
    context.facts.update(rates=rates, completions=len(every), **_completion_rates(every))
    for model, shares in rates.items():
        _warn_of_rates(context, model, shares)
        _warn_of_unscored(context, model, [row for row in models[model] if row["completion"] is not None])


def _completion_rates(flat: Sequence[Row]) -> dict[str, float]:
    """The shares of the completions that were truncated, that have no score, and that never came."""
    truncated = sum(row["finish"] == "length" for row in flat)
    unscored = sum(row["node:is unscored"] for row in flat)
    timed_out = sum(row["finish"] == "timeout" for row in flat)
    failed = sum(row["completion"] is None for row in flat) - timed_out
    counts = {"truncated": truncated, "unscored": unscored, "timed_out": timed_out, "failed": failed}
    return {name: count / len(flat) for name, count in counts.items()}


def _warn_of_rates(context: StepContext, model: str, shares: Mapping[str, float]) -> None:
    missing = shares["timed_out"] + shares["failed"]
    if missing:
        context.events.emit(
            "warning",
            message=f"{missing:.1%} of the completions of {model} never came; they count as unscored",
            advice="the column `finish` of completions.parquet tells which; the log of the endpoint, why",
        )
    if shares["truncated"] > 0.5:
        context.events.emit(
            "warning",
            message=f"{shares['truncated']:.0%} of the completions reached `max_tokens` and were truncated",
            advice="raise sampling.max_tokens, or train the model to end",
        )


def _warn_of_unscored(context: StepContext, model: str, flat: Sequence[Row]) -> None:
    """Completions without a score, with the reason that is given most often."""
    unscored = [row for row in flat if row["node:is unscored"]]
    reasons = Counter(
        f"{name}: {row[f'reason:{name}']}"
        for row in unscored
        for name in context.facts["nodes"]
        if row[f"node:{name}"] is None and row.get(f"reason:{name}")
    )
    if unscored:
        why = f"; most often {reasons.most_common(1)[0][0][:_MAX_REASON_LENGTH]}" if reasons else ""
        context.events.emit(
            "warning",
            message=f"{len(unscored)} of {len(flat)} completions of {model} have no score{why}",
            advice="the columns `reason:NODE` of completions.parquet tell why; they count for no metric",
        )


def _prompt_text(prompt: Any) -> str:
    return prompt if isinstance(prompt, str) else "\n".join(turn["content"] for turn in prompt or ())
