"""Gates: the metrics that they compare, and whether their thresholds can be reached and decided."""

from collections.abc import Mapping
from typing import Any

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.diagnosis.suggest import hint
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe
from posttrain.compiler.stages.eval_stage import Metric, StageWithMetrics
from posttrain.compiler.stages.statistical_power import GATE_EXAMPLE, check_power
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.diagnostic import Code
from posttrain.spec.eval_stages import Condition, Gate
from posttrain.spec.record import record

BAD_CONDITION = Code(
    "PT0701",
    "a gate's condition that is not one",
    "error",
    "A condition has exactly one of at_least, at_most and better_than; `margin` goes with better_than.",
    wrong=minimal_recipe(GATE_EXAMPLE, ("at_least: 0.8", "at_least: 0.8, at_most: 0.9")),
    right=minimal_recipe(GATE_EXAMPLE),
)
UNKNOWN_METRIC = Code(
    "PT0702",
    "a metric that no eval gives",
    "error",
    "A gate names metrics as STAGE.METRIC, where STAGE is an eval stage that declares METRIC, or a benchmark"
    " stage whose tasks give it: STAGE.TASK.METRIC. Figures that are no means of items, such as a perplexity"
    " or a corpus BLEU, are told and not ruled on.",
    wrong=minimal_recipe(GATE_EXAMPLE, ("metric: check.accuracy", "metric: check.acuracy")),
    right=minimal_recipe(GATE_EXAMPLE),
)
UNREACHABLE_THRESHOLD = Code(
    "PT0703",
    "a threshold that cannot be reached",
    "error",
    "The metric's range, derived from the reward graph, lies wholly on one side of the threshold: the"
    " gate would always give the same verdict.",
    wrong=minimal_recipe(GATE_EXAMPLE, ("at_least: 0.8", "at_least: 80")),
    right=minimal_recipe(GATE_EXAMPLE),
)
NOT_PAIRED = Code(
    "PT0705",
    "a comparison of evals on different rows",
    "error",
    "`better_than` compares item by item, so both evals must measure the same rows, as often each, by"
    " a metric of the same kind.",
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


@record(kw_only=True)
class CheckedGate:
    """A checked gate: its conditions as the runtime decides them, and the evals it reads."""

    stage: Gate
    conditions: tuple[Mapping[str, Any], ...]
    evals: tuple[str, ...]


def check_gate(
    name: str,
    stage: Gate,
    named: ResolvedRecipe,
    evals: Mapping[str, StageWithMetrics],
    findings: Diagnostics,
) -> CheckedGate | None:
    conditions: list[Mapping[str, Any]] = []
    used: dict[str, None] = {}
    for index, condition in enumerate(stage.gate):
        path: KeyPath = ("stages", name, "gate", index)
        lowered = _lower_condition(condition, path, named, evals, findings)
        if lowered is not None:
            conditions.append(lowered)
            for side in (lowered["metric"], lowered.get("baseline")):
                if side is not None:
                    used[side["eval"]] = None
    if len(conditions) < len(stage.gate):
        return None
    return CheckedGate(stage=stage, conditions=tuple(conditions), evals=tuple(used))


def _lower_condition(
    given: Condition,
    path: KeyPath,
    named: ResolvedRecipe,
    evals: Mapping[str, StageWithMetrics],
    findings: Diagnostics,
) -> Mapping[str, Any] | None:
    kinds = [k for k in ("at_least", "at_most", "better_than") if getattr(given, k) is not None]
    if len(kinds) != 1 or (given.margin and kinds != ["better_than"]):
        message = "a condition has exactly one of at_least, at_most and better_than"
        if len(kinds) == 1:
            message = "`margin` goes with better_than"
        findings.add(BAD_CONDITION, path, message)
        return None
    metric = _resolve_metric(given.metric, (*path, "metric"), named, evals, findings)
    baseline = None
    if given.better_than is not None:
        where = (*path, "better_than")
        baseline = _resolve_metric(given.better_than, where, named, evals, findings)
        if given.better_than == given.metric:
            message = f"`{given.metric}` is compared with itself: it is never the better"
            findings.add(BAD_CONDITION, where, message, help="name the metric of another eval")
            return None
        if metric and baseline and not _check_paired(metric, baseline, named, evals, where, findings):
            return None
    if metric is None or (given.better_than is not None and baseline is None):
        return None
    threshold = given.at_least if given.at_least is not None else given.at_most
    if threshold is None or _check_reachable(given, threshold, metric, path, findings):
        measured = evals[metric[0]]
        rows = measured.num_items(metric[1])
        check_power(given, metric[2], rows, measured.samples, path, findings)
    return {
        "kind": kinds[0],
        "metric": {"eval": metric[0], "name": metric[1]},
        "baseline": {"eval": baseline[0], "name": baseline[1]} if baseline else None,
        "threshold": threshold,
        "margin": given.margin,
        "confidence": given.confidence,
        "text": _condition_text(given, kinds[0]),
    }


ResolvedMetric = tuple[str, str, Metric]


def _resolve_metric(
    text: str,
    path: KeyPath,
    named: ResolvedRecipe,
    evals: Mapping[str, StageWithMetrics],
    findings: Diagnostics,
) -> ResolvedMetric | None:
    stage, _, metric = text.partition(".")
    if stage in evals and metric in evals[stage].metrics:
        return stage, metric, evals[stage].metrics[metric]
    declared = named.recipe.stages.get(stage)
    if stage in named.recipe.invalid_names or (stage not in evals and _is_measuring_stage(declared)):
        return None  # that eval has mistakes of its own
    if stage in evals and metric.rpartition(".")[2] in evals[stage].invalid_metrics:
        return None
    known = [f"{name}.{m}" for name, found in evals.items() for m in found.metrics]
    help, meant = hint(text, known, what="metrics")
    findings.add(UNKNOWN_METRIC, path, f"no eval gives the metric `{text}`", help=help, replace=meant)
    return None


def _is_measuring_stage(stage: object) -> bool:
    return any(getattr(stage, verb, None) for verb in ("eval", "benchmark"))


def _check_paired(
    metric: ResolvedMetric,
    baseline: ResolvedMetric,
    named: ResolvedRecipe,
    evals: Mapping[str, StageWithMetrics],
    path: KeyPath,
    findings: Diagnostics,
) -> bool:
    data = [evals[side[0]].pairing_key(named, *side[:2]) for side in (metric, baseline)]
    samples = [evals[side[0]].samples for side in (metric, baseline)]
    if data[0] == data[1] and samples[0] == samples[1] and metric[2].kind == baseline[2].kind:
        return True
    message = f"`{metric[0]}` and `{baseline[0]}` do not measure the same rows in the same way"
    findings.add(NOT_PAIRED, path, message)
    return False


def _check_reachable(
    given: Condition, threshold: float, metric: ResolvedMetric, path: KeyPath, findings: Diagnostics
) -> bool:
    where = (*path, "at_least" if given.at_least is not None else "at_most")
    reach = metric[2].range
    if reach.low <= threshold <= reach.high:
        return True
    message = f"`{given.metric}` lies in {reach}, so {threshold:g} decides nothing"
    findings.add(UNREACHABLE_THRESHOLD, where, message)
    return False


def _condition_text(given: Condition, kind: str) -> str:
    sure = f"({given.confidence:.0%} sure)"
    if kind == "better_than":
        if given.margin < 0:
            return f"{given.metric} worse than {given.better_than} by less than {-given.margin:g} {sure}"
        by = f" by more than {given.margin:g}" if given.margin else ""
        return f"{given.metric} better than {given.better_than}{by} {sure}"
    threshold = given.at_least if kind == "at_least" else given.at_most
    return f"{given.metric} {kind.replace('_', ' ')} {threshold:g} {sure}"
