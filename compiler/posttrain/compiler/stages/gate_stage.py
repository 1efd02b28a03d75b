"""Checks gates: the metrics that they compare, and whether their thresholds can be reached and decided."""

from collections.abc import Mapping

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.stages.eval_stage import Metric, StageWithMetrics
from posttrain.compiler.stages.statistical_power import GATE_EXAMPLE, check_power
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.diagnostic import Code
from posttrain.spec.eval_stages import Condition, Gate
from posttrain.spec.record import record
from posttrain.spec.step_params.eval_params import ConditionKind, GateCondition, MetricReference
from posttrain.spec.suggestions import hint
from posttrain.spec.train_stage import Train

BAD_CONDITION = Code(
    "PT0701",
    "invalid condition of a gate",
    "error",
    "A condition has exactly one of at_least, at_most and better_than. `margin` needs better_than.",
    wrong=minimal_recipe(GATE_EXAMPLE, ("at_least: 0.8", "at_least: 0.8, at_most: 0.9")),
    right=minimal_recipe(GATE_EXAMPLE),
)
UNKNOWN_METRIC = Code(
    "PT0702",
    "unknown metric",
    "error",
    "A gate names metrics as STAGE.METRIC, where STAGE is an eval stage with the metric METRIC, or a"
    " training stage that evaluates held-out rows (`evaluate.data`), as in sft.eval_loss; or as"
    " STAGE.TASK.METRIC for a benchmark stage. Metrics that are not means over items, such as perplexity or"
    " corpus BLEU, are reported, but gates cannot use them.",
    wrong=minimal_recipe(GATE_EXAMPLE, ("metric: check.accuracy", "metric: check.acuracy")),
    right=minimal_recipe(GATE_EXAMPLE),
)
UNREACHABLE_THRESHOLD = Code(
    "PT0703",
    "threshold out of range",
    "error",
    "The threshold is outside the range of the metric, which follows from the reward graph, so the gate"
    " would always have the same verdict.",
    wrong=minimal_recipe(GATE_EXAMPLE, ("at_least: 0.8", "at_least: 80")),
    right=minimal_recipe(GATE_EXAMPLE),
)
NOT_PAIRED = Code(
    "PT0705",
    "comparison of evals on different rows",
    "error",
    "`better_than` compares item by item. Both evals must use the same rows, the same number of samples, and"
    " a metric of the same kind. Losses on held-out rows must be the same metric of the same method, with the"
    " same parameters of the loss.",
    wrong=minimal_recipe(
        GATE_EXAMPLE,
        ("at_least: 0.8", "better_than: first.accuracy"),
        (
            "  ship:",
            "  first: {eval: base, data: sums.train, reward: right, metrics: {accuracy: returns}}\n  ship:",
        ),
    ),
    right=minimal_recipe(GATE_EXAMPLE),
)
CODES = (BAD_CONDITION, UNKNOWN_METRIC, UNREACHABLE_THRESHOLD, NOT_PAIRED)

_CONDITION_KINDS: tuple[ConditionKind, ...] = ("at_least", "at_most", "better_than")


@record(kw_only=True)
class CheckedGate:
    """A checked gate: its conditions as the runtime evaluates them, and the evals that it reads."""

    stage: Gate
    conditions: tuple[GateCondition, ...]
    evals: tuple[str, ...]


def check_gate(
    name: str,
    stage: Gate,
    resolved: ResolvedRecipe,
    evals: Mapping[str, StageWithMetrics],
    diagnostics: Diagnostics,
) -> CheckedGate | None:
    conditions: list[GateCondition] = []
    used: dict[str, None] = {}
    for index, condition in enumerate(stage.gate):
        path: KeyPath = ("stages", name, "gate", index)
        lowered = _lower_condition(condition, path, resolved, evals, diagnostics)
        if lowered is not None:
            conditions.append(lowered)
            for side in (lowered.metric, lowered.baseline):
                if side is not None:
                    used[side.eval] = None
    if len(conditions) < len(stage.gate):
        return None
    return CheckedGate(stage=stage, conditions=tuple(conditions), evals=tuple(used))


def _lower_condition(
    condition: Condition,
    path: KeyPath,
    resolved: ResolvedRecipe,
    evals: Mapping[str, StageWithMetrics],
    diagnostics: Diagnostics,
) -> GateCondition | None:
    kinds: list[ConditionKind] = [k for k in _CONDITION_KINDS if getattr(condition, k) is not None]
    if len(kinds) != 1 or (condition.margin and kinds != ["better_than"]):
        message = "a condition has exactly one of at_least, at_most and better_than"
        if len(kinds) == 1:
            message = "`margin` needs better_than"
        diagnostics.add(BAD_CONDITION, path, message)
        return None
    metric = _resolve_metric(condition.metric, (*path, "metric"), resolved, evals, diagnostics)
    baseline = None
    if condition.better_than is not None:
        where = (*path, "better_than")
        baseline = _resolve_metric(condition.better_than, where, resolved, evals, diagnostics)
        if condition.better_than == condition.metric:
            message = f"`{condition.metric}` is compared with itself"
            diagnostics.add(BAD_CONDITION, where, message, help="name the metric of another eval")
            return None
        if metric and baseline and not _check_paired(metric, baseline, resolved, evals, where, diagnostics):
            return None
    if metric is None or (condition.better_than is not None and baseline is None):
        return None
    threshold = condition.at_least if condition.at_least is not None else condition.at_most
    if threshold is None or _check_reachable(condition, threshold, metric, path, diagnostics):
        measured = evals[metric[0]]
        rows = measured.num_items(metric[1])
        values = metric[2].range.join(baseline[2].range) if baseline else metric[2].range
        check_power(condition, metric[2], values, rows, measured.samples, path, diagnostics)
    return GateCondition(
        kind=kinds[0],
        metric=MetricReference(eval=metric[0], name=metric[1]),
        baseline=MetricReference(eval=baseline[0], name=baseline[1]) if baseline else None,
        threshold=threshold,
        margin=condition.margin,
        confidence=condition.confidence,
        text=_condition_text(condition, kinds[0]),
        lower_is_better=metric[2].lower_is_better,
    )


ResolvedMetric = tuple[str, str, Metric]


def _resolve_metric(
    text: str,
    path: KeyPath,
    resolved: ResolvedRecipe,
    evals: Mapping[str, StageWithMetrics],
    diagnostics: Diagnostics,
) -> ResolvedMetric | None:
    stage, _, metric = text.partition(".")
    if stage in evals and metric in evals[stage].metrics:
        return stage, metric, evals[stage].metrics[metric]
    declared = resolved.recipe.stages.get(stage)
    if stage in resolved.recipe.invalid_names or (stage not in evals and _is_measuring_stage(declared)):
        return None  # the errors of that eval are reported elsewhere
    if stage in evals and metric.rpartition(".")[2] in evals[stage].invalid_metrics:
        return None
    known = [f"{name}.{m}" for name, found in evals.items() for m in found.metrics]
    help, meant = hint(text, known, what="metrics")
    labels = diagnostics.removal_labels(stage, "stages")
    message = f"no eval, benchmark or training stage has the metric `{text}`"
    diagnostics.add(UNKNOWN_METRIC, path, message, help=help, labels=labels, replace=meant)
    return None


def _is_measuring_stage(stage: object) -> bool:
    evaluates_rows = (
        isinstance(stage, Train) and stage.evaluate is not None and stage.evaluate.data is not None
    )
    return evaluates_rows or any(getattr(stage, verb, None) for verb in ("eval", "benchmark"))


def _check_paired(
    metric: ResolvedMetric,
    baseline: ResolvedMetric,
    resolved: ResolvedRecipe,
    evals: Mapping[str, StageWithMetrics],
    path: KeyPath,
    diagnostics: Diagnostics,
) -> bool:
    data = [evals[side[0]].pairing_key(resolved, *side[:2]) for side in (metric, baseline)]
    samples = [evals[side[0]].samples for side in (metric, baseline)]
    if data[0] == data[1] and samples[0] == samples[1] and metric[2].kind == baseline[2].kind:
        return True
    message = f"`{metric[0]}` and `{baseline[0]}` do not evaluate the same rows in the same way"
    diagnostics.add(NOT_PAIRED, path, message)
    return False


def _check_reachable(
    condition: Condition, threshold: float, metric: ResolvedMetric, path: KeyPath, diagnostics: Diagnostics
) -> bool:
    where = (*path, "at_least" if condition.at_least is not None else "at_most")
    reach = metric[2].range
    if reach.low <= threshold <= reach.high:
        return True
    message = f"the range of `{condition.metric}` is {reach}, so {threshold:g} cannot decide"
    diagnostics.add(UNREACHABLE_THRESHOLD, where, message)
    return False


def _condition_text(condition: Condition, kind: str) -> str:
    sure = f"({condition.confidence:.0%} sure)"
    if kind == "better_than":
        if condition.margin < 0:
            by = f"by less than {-condition.margin:g}"
            return f"{condition.metric} worse than {condition.better_than} {by} {sure}"
        by = f" by more than {condition.margin:g}" if condition.margin else ""
        return f"{condition.metric} better than {condition.better_than}{by} {sure}"
    threshold = condition.at_least if kind == "at_least" else condition.at_most
    return f"{condition.metric} {kind.replace('_', ' ')} {threshold:g} {sure}"
