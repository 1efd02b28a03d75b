"""Runs an eval stage: samples completions, scores them with a reward graph, and computes metrics.

completions.parquet    one row per completion: the data columns, the text, the value of every node
metrics.json           each metric with its confidence interval and number of items
breakdowns.json        the metrics for each value of the columns in `group_by`
comparisons.json       paired comparisons of every two models
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
from posttrain.spec.messages import turn_words
from posttrain.spec.step_params.eval_params import EvalStepParams
from posttrain.spec.step_params.generation_params import ModelTarget

_MAX_REASON_LENGTH = 200
_MAX_REPORTED_SAMPLES = 40  # samples of each model in the report
_MAX_REPORTED_BREAKDOWNS = 100  # breakdowns in the report
_RATE_NODES = {rate["node"] for rate in metric_tables.COMPLETION_RATES.values()}
Row = dict[str, Any]
# The scored completions of each model, by model name.
ScoredModels = Mapping[str, Sequence[Row]]


def run_eval(context: StepContext[EvalStepParams]) -> None:
    """Run an eval step."""
    rows = read_rows(context.inputs["data"], context.part("data"))
    if not rows:
        raise StepError("the dataset has no rows to evaluate", "check the dataset's steps")
    models = {
        model_spec.name: _score_model(context, model_spec, rows) for model_spec in context.params.models
    }
    definitions: metric_tables.Metrics = {}
    for flat in models.values():
        definitions = metric_tables.add_pass_at_k(
            flat, {**metric_tables.COMPLETION_RATES, **metric_tables.metric_records(context.params.metrics)}
        )
    metrics, breakdowns = _metrics(context, models, definitions), _breakdowns(context, models, definitions)
    comparisons = metric_tables.compare_models(models, definitions, context.params.seed)
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
    context: StepContext[EvalStepParams], models: ScoredModels, definitions: metric_tables.Metrics
) -> dict[str, dict[str, Any]]:
    """Every metric by name, or by MODEL.METRIC if the stage evaluates several models."""
    metrics: dict[str, dict[str, Any]] = {}
    for model, flat in models.items():
        for name, metric in metric_tables.measure_metrics(flat, definitions, context.params.seed).items():
            if context.params.multiple_models:
                metrics[f"{model}.{name}"] = {**metric, "model": model}
            else:
                metrics[name] = metric
    return metrics


def _breakdowns(
    context: StepContext[EvalStepParams], models: ScoredModels, definitions: metric_tables.Metrics
) -> list[dict[str, Any]]:
    by, seed = context.params.group_by, context.params.seed
    return [
        {"model": model, **breakdown}
        for model, flat in models.items()
        for breakdown in metric_tables.compute_breakdowns(flat, definitions, by, seed)
    ]


def _score_model(context: StepContext[EvalStepParams], model_spec: ModelTarget, rows: list[Row]) -> list[Row]:
    """Sample and score the completions of one model. Returns a row for each, with values in `node:NAME`."""
    from posttrain.runtime.prompts import build_prompts
    from posttrain.runtime.rewards.engine.graph import Graph

    params = context.params
    with open_engine(context, model_spec) as generator:
        prompts = build_prompts(context, generator, rows)
        context.events.emit("phase", name=_phase("generating", context, model_spec))
        if params.environment is not None:
            from posttrain.runtime.environments.eval_episodes import run_subject_episodes

            flat = run_subject_episodes(context, model_spec, generator, rows, prompts)
        else:
            completions = generate_completions(
                context, model_spec, generator, prompts, params.sampling, seed=params.seed
            )
            flat = completion_rows(rows, completions)
    context.events.emit("phase", name=_phase("scoring", context, model_spec))
    graph = Graph.from_step(context)
    score_rows(flat, graph)
    metric_tables.add_rates(flat, graph.returns)
    context.facts["nodes"] = graph.named_nodes
    context.facts["returns"] = graph.returns
    return flat


def _phase(name: str, context: StepContext[EvalStepParams], model_spec: ModelTarget) -> str:
    return f"{name} {model_spec.name}" if context.params.multiple_models else name


def _report(context: StepContext[EvalStepParams], models: ScoredModels) -> None:
    """Emit samples and warnings, and record completion rates for the report."""
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
    all_rows = [row for flat in models.values() for row in flat]
    context.facts.update(rates=rates, completions=len(all_rows), **_completion_rates(all_rows))
    for model, model_rates in rates.items():
        _warn_of_rates(context, model, model_rates)
        _warn_of_unscored(context, model, [row for row in models[model] if row["completion"] is not None])


def _completion_rates(flat: Sequence[Row]) -> dict[str, float]:
    """The shares of completions that are truncated, unscored, timed out, or failed."""
    truncated = sum(row["finish"] == "length" for row in flat)
    unscored = sum(row["node:is unscored"] for row in flat)
    timed_out = sum(row["finish"] == "timeout" for row in flat)
    failed = sum(row["completion"] is None for row in flat) - timed_out
    counts = {"truncated": truncated, "unscored": unscored, "timed_out": timed_out, "failed": failed}
    return {name: count / len(flat) for name, count in counts.items()}


def _warn_of_rates(context: StepContext[EvalStepParams], model: str, rates: Mapping[str, float]) -> None:
    missing = rates["timed_out"] + rates["failed"]
    if missing:
        context.events.emit(
            "warning",
            message=f"{missing:.1%} of the completions of {model} failed; they count as unscored",
            advice="see the column `finish` of completions.parquet, and the endpoint's log for the cause",
        )
    if rates["truncated"] > 0.5:
        context.events.emit(
            "warning",
            message=f"{rates['truncated']:.0%} of the completions reached `max_tokens` and were truncated",
            advice="raise sampling.max_tokens, or train the model to generate the end-of-sequence token",
        )


def _warn_of_unscored(context: StepContext[EvalStepParams], model: str, flat: Sequence[Row]) -> None:
    """Warn about completions without a score, with the most common reason."""
    unscored = [row for row in flat if row["node:is unscored"]]
    reasons = Counter(
        f"{name}: {row[f'reason:{name}']}"
        for row in unscored
        for name in context.facts["nodes"]
        if row[f"node:{name}"] is None and row.get(f"reason:{name}")
    )
    if unscored:
        common = reasons.most_common(1)
        why = f"; most common reason: {common[0][0][:_MAX_REASON_LENGTH]}" if common else ""
        context.events.emit(
            "warning",
            message=f"{len(unscored)} of {len(flat)} completions of {model} have no score{why}",
            advice="see the columns `reason:NODE` of completions.parquet; metrics do not include them",
        )


def _prompt_text(prompt: Any) -> str:
    return prompt if isinstance(prompt, str) else "\n".join(map(turn_words, prompt or ()))
