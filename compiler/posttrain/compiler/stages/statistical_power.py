"""Checks, before anything runs, whether an eval has enough rows to decide the conditions of a gate."""

import math

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.stages.eval_stage import Metric
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.column_types import Interval
from posttrain.spec.diagnostic import Code
from posttrain.spec.eval_stages import Condition
from posttrain.spec.gate_power import (
    POWER,
    min_items_for_mean,
    min_pairs_for_gain,
    min_trials_for_rate,
    paired_gain_power,
    rate_power,
    sample_size_for_paired_gain,
    sample_size_for_rate,
)

GATE_EXAMPLE = (
    "  check: {eval: sft, data: sums.test, reward: right, metrics: {score: {mean: returns}}}\n",
    (
        "  check: {eval: sft, data: sums.test, reward: right, metrics: {accuracy: returns}}\n"
        "  ship: {gate: [{metric: check.accuracy, at_least: 0.8}]}\n"
    ),
)
_FIRST = (
    "  ship:",
    "  first: {eval: base, data: sums.test, reward: right, metrics: {accuracy: returns}}\n  ship:",
)
UNDECIDABLE_GATE = Code(
    "PT0704",
    "test set too small for the gate",
    "error",
    "Even if every item were correct, or improved, the confidence interval would include the threshold. Add"
    " items, or lower the threshold or the confidence.",
    wrong=minimal_recipe(GATE_EXAMPLE, ("at_least: 0.8", "at_least: 0.99")),
    right=minimal_recipe(GATE_EXAMPLE),
)
UNDETECTABLE_EFFECT = Code(
    "PT0707",
    "test set too small for min_detectable_effect",
    "error",
    "`min_detectable_effect` is the distance from the threshold or the margin that the gate must detect with"
    " a power of 80%. For a comparison, the number of items also depends on `expected_disagreement`, the"
    " share of items on which the two models differ. Add items, or set a larger effect. Effects apply to"
    " rates only, because the variance of a mean is not known in advance.",
    wrong=minimal_recipe(GATE_EXAMPLE, ("at_least: 0.8", "at_least: 0.8, min_detectable_effect: 0.05")),
    right=minimal_recipe(GATE_EXAMPLE, ("at_least: 0.8", "at_least: 0.8, min_detectable_effect: 0.12")),
)
UNDERPOWERED_MARGIN = Code(
    "PT0708",
    "test set too small for the margin",
    "warning",
    "The gate tolerates a small loss. If the two models are equally good, these items show that with a power"
    " below 80%, so the verdict will often be inconclusive. Add items, allow a larger loss, or set"
    " `min_detectable_effect` and `expected_disagreement`.",
    wrong=minimal_recipe(
        GATE_EXAMPLE, ("at_least: 0.8", "better_than: first.accuracy, margin: -0.05"), _FIRST
    ),
    right=minimal_recipe(
        GATE_EXAMPLE, ("at_least: 0.8", "better_than: first.accuracy, margin: -0.15"), _FIRST
    ),
)
_COUNTED = (
    ("{score: {when: {math_equal: {of: completion, to: answer}}, then: 1.0}}", "{length: completion}"),
    ("metrics: {accuracy: returns}", "metrics: {accuracy: {mean: returns}}"),
    ("at_least: 0.8", "at_most: 30"),
)
_LIMITED = (("{length: completion}", "{clip: {of: {length: completion}, high: 64}}"),)
UNKNOWN_RANGE = Code(
    "PT0709",
    "gate on a metric without a known range",
    "warning",
    "A rare item with an extreme value can change the mean of such a metric by any amount, and items without"
    " one do not show it. The gate can pass or fail by mistake more often than its confidence says. Use a"
    " rate, or limit the values, for example with `clip`. The same holds for a"
    " loss on held-out rows, which no key can limit, so it is not reported: evaluate many rows.",
    wrong=minimal_recipe(GATE_EXAMPLE, *_COUNTED),
    right=minimal_recipe(GATE_EXAMPLE, *_COUNTED, *_LIMITED),
)
CODES = (UNDECIDABLE_GATE, UNDETECTABLE_EFFECT, UNDERPOWERED_MARGIN, UNKNOWN_RANGE)


def check_power(
    condition: Condition,
    metric: Metric,
    values: Interval,
    rows: int | None,
    samples: int,
    path: KeyPath,
    diagnostics: Diagnostics,
) -> None:
    """Report a condition that the rows cannot decide, with the number of items that it needs.

    `values` is the range of an item's value, in the baseline as well.
    """
    if metric.kind not in ("rate", "pass_at"):
        _check_mean(condition, metric, values, rows, path, diagnostics)
    elif rows is None:
        return
    elif condition.better_than is not None:
        _check_pairs(condition, rows, path, diagnostics)
    else:
        _check_trials(condition, rows, samples, path, diagnostics)


def _check_mean(
    condition: Condition,
    metric: Metric,
    values: Interval,
    rows: int | None,
    path: KeyPath,
    diagnostics: Diagnostics,
) -> None:
    if condition.min_detectable_effect is not None:
        message = "the variance of a mean is not known in advance: `min_detectable_effect` needs a rate"
        diagnostics.add(UNDETECTABLE_EFFECT, (*path, "min_detectable_effect"), message)
    reach = values.high - values.low
    if metric.held_out and not math.isfinite(reach):  # a loss has no bounds that its user could set
        return
    if not math.isfinite(reach):
        message = (
            f"the range of `{condition.metric}` is {values}, so the confidence of the gate is approximate"
        )
        diagnostics.add(UNKNOWN_RANGE, (*path, "metric"), message, help="use a rate, or limit the values")
        return
    if condition.at_most is not None:
        key, bound, extreme = "at_most", -condition.at_most, Interval(-values.high, -values.low)
    elif condition.at_least is not None:
        key, bound, extreme = "at_least", condition.at_least, values
    else:
        key, bound, extreme = "better_than", condition.margin, Interval(-reach, reach)
    needed = min_items_for_mean(bound, extreme, condition.confidence)
    if rows is not None and not 0 <= needed <= rows:
        message = f"{rows} items cannot show this with {condition.confidence:.0%} confidence"
        diagnostics.add(UNDECIDABLE_GATE, (*path, key), message, help=_required_items(needed))


def _check_trials(
    condition: Condition, count: int, samples: int, path: KeyPath, diagnostics: Diagnostics
) -> None:
    side = "at_least" if condition.at_least is not None else "at_most"
    bound = condition.at_least if condition.at_least is not None else condition.at_most
    assert bound is not None, "a condition without `better_than` has a threshold"
    threshold = bound if side == "at_least" else 1 - bound
    needed = min_trials_for_rate(threshold, condition.confidence)
    if not 0 <= needed <= count:
        comparison = f"{side.replace('_', ' ')} {bound:g}"
        message = f"{count} items cannot show {comparison} with {condition.confidence:.0%} confidence"
        diagnostics.add(UNDECIDABLE_GATE, (*path, side), message, help=_required_items(needed))
    elif condition.min_detectable_effect is not None:
        if threshold + condition.min_detectable_effect > 1:
            effect = f"an effect of {condition.min_detectable_effect:g} from {bound:g}"
            message = f"{effect} exceeds the range of a rate"
            diagnostics.add(UNDETECTABLE_EFFECT, (*path, "min_detectable_effect"), message)
            return
        # Completions of one prompt are correlated: at best they count as much as separate prompts.
        wanted = threshold, condition.min_detectable_effect, condition.confidence
        if rate_power(count * samples, *wanted) < POWER:
            needed = sample_size_for_rate(*wanted)
            effect = f"an effect of {condition.min_detectable_effect:g} from {bound:g}"
            message = f"{count * samples} completions detect {effect} with a power below 80%"
            diagnostics.add(
                UNDETECTABLE_EFFECT, (*path, "min_detectable_effect"), message, help=_required_items(needed)
            )


def _check_pairs(condition: Condition, count: int, path: KeyPath, diagnostics: Diagnostics) -> None:
    needed = min_pairs_for_gain(condition.margin, condition.confidence)
    if not 0 <= needed <= count:
        message = f"{count} pairs cannot show a gain above {condition.margin:g}, even if every item improves"
        diagnostics.add(UNDECIDABLE_GATE, (*path, "better_than"), message, help=_required_items(needed))
        return
    effect = (
        condition.min_detectable_effect
        if condition.min_detectable_effect is not None
        else max(0.0, -condition.margin)
    )
    if effect == 0:
        return
    if condition.margin + effect > 1:
        diagnostics.add(
            UNDETECTABLE_EFFECT,
            (*path, "min_detectable_effect"),
            f"a margin of {condition.margin:g} and an effect of {effect:g} exceed the largest gain, 1",
        )
        return
    wanted = condition.margin, effect, condition.confidence, condition.expected_disagreement
    if paired_gain_power(count, *wanted) >= POWER:
        return
    needed = sample_size_for_paired_gain(*wanted)
    if condition.min_detectable_effect is None:
        message = (
            f"{count} pairs show that equal models are within {condition.margin:g} with a power below 80%"
        )
        diagnostics.add(UNDERPOWERED_MARGIN, (*path, "margin"), message, help=_required_items(needed))
    else:
        message = f"{count} pairs detect a gain of {condition.margin + effect:g} with a power below 80%"
        diagnostics.add(
            UNDETECTABLE_EFFECT, (*path, "min_detectable_effect"), message, help=_required_items(needed)
        )


def _required_items(needed: int) -> str:
    return f"at least {needed:,} items are needed" if needed > 0 else "no number of items is enough"
