"""Whether the rows of an eval can decide what a gate asks: known before anything runs."""

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.stages.eval_stage import Metric
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.diagnostic import Code
from posttrain.spec.eval_stages import Condition
from posttrain.spec.eval_statistics import (
    min_pairs_for_gain,
    min_trials_for_rate,
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
    "a gate that the test set is too small to decide",
    "error",
    "Even if every item were right, or had become right, the confidence interval would still reach across"
    " the threshold. Add items, or lower the threshold or the confidence.",
    wrong=minimal_recipe(GATE_EXAMPLE, ("at_least: 0.8", "at_least: 0.99")),
    right=minimal_recipe(GATE_EXAMPLE),
)
UNDETECTABLE_EFFECT = Code(
    "PT0707",
    "an effect that the test set is too small to tell",
    "error",
    "`min_detectable_effect` is the distance from the threshold, or from the margin, that the gate must be"
    " able to detect four times in five. For a comparison that depends on the share of items on which the two"
    " differ: `expected_disagreement`."
    " Add items, or look for a larger effect. Effects are of rates: a mean's spread is not known beforehand.",
    wrong=minimal_recipe(GATE_EXAMPLE, ("at_least: 0.8", "at_least: 0.8, min_detectable_effect: 0.05")),
    right=minimal_recipe(GATE_EXAMPLE, ("at_least: 0.8", "at_least: 0.8, min_detectable_effect: 0.12")),
)
UNDERPOWERED_MARGIN = Code(
    "PT0708",
    "a margin that equal models will seldom keep",
    "warning",
    "The gate tolerates a small loss. Where the two models are as good as each other, these items would show"
    " that less often than four times in five: the verdict will mostly be inconclusive. Add items, tolerate"
    " more, or give `min_detectable_effect` and `expected_disagreement`.",
    wrong=minimal_recipe(
        GATE_EXAMPLE, ("at_least: 0.8", "better_than: first.accuracy, margin: -0.05"), _FIRST
    ),
    right=minimal_recipe(
        GATE_EXAMPLE, ("at_least: 0.8", "better_than: first.accuracy, margin: -0.15"), _FIRST
    ),
)
CODES = (UNDECIDABLE_GATE, UNDETECTABLE_EFFECT, UNDERPOWERED_MARGIN)


def check_power(
    condition: Condition,
    metric: Metric,
    rows: int | None,
    samples: int,
    path: KeyPath,
    diagnostics: Diagnostics,
) -> None:
    """Report a condition that the rows cannot decide, with the number that would do."""
    if metric.kind not in ("rate", "pass_at"):
        if condition.min_detectable_effect is not None:
            diagnostics.add(
                UNDETECTABLE_EFFECT,
                (*path, "min_detectable_effect"),
                "the spread of a mean is not known: no effect can be promised",
            )
        return
    if rows is None:
        return
    if condition.better_than is not None:
        _check_pairs(condition, rows, path, diagnostics)
    else:
        _check_trials(condition, rows, samples, path, diagnostics)


def _check_trials(
    condition: Condition, count: int, samples: int, path: KeyPath, diagnostics: Diagnostics
) -> None:
    side = "at_least" if condition.at_least is not None else "at_most"
    bound = condition.at_least if condition.at_least is not None else condition.at_most
    assert bound is not None, "a condition that compares with nothing has a threshold"
    threshold = bound if side == "at_least" else 1 - bound
    needed = min_trials_for_rate(threshold, condition.confidence)
    if not 0 <= needed <= count:
        asked = f"{side.replace('_', ' ')} {bound:g}"
        message = f"{count} items cannot show {asked} with {condition.confidence:.0%} confidence"
        diagnostics.add(UNDECIDABLE_GATE, (*path, side), message, help=_required_items(needed))
    elif condition.min_detectable_effect is not None:
        if threshold + condition.min_detectable_effect > 1:
            message = f"no rate lies {condition.min_detectable_effect:g} beyond {bound:g}"
            diagnostics.add(UNDETECTABLE_EFFECT, (*path, "min_detectable_effect"), message)
            return
        needed = sample_size_for_rate(threshold, condition.min_detectable_effect, condition.confidence)
        # Completions of one prompt tell less than as many prompts: at best they tell as much.
        if count * samples < needed:
            found = f"a rate {condition.min_detectable_effect:g} from {bound:g}"
            message = f"{count * samples} completions tell {found} less than four times in five"
            diagnostics.add(
                UNDETECTABLE_EFFECT, (*path, "min_detectable_effect"), message, help=_required_items(needed)
            )


def _check_pairs(condition: Condition, count: int, path: KeyPath, diagnostics: Diagnostics) -> None:
    needed = min_pairs_for_gain(condition.margin, condition.confidence)
    if not 0 <= needed <= count:
        message = (
            f"{count} pairs cannot show a gain of more than {condition.margin:g}, even if every item gains"
        )
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
            f"no gain lies {effect:g} above {condition.margin:g}",
        )
        return
    needed = sample_size_for_paired_gain(
        condition.margin, effect, condition.confidence, condition.expected_disagreement
    )
    if count >= needed:
        return
    if condition.min_detectable_effect is None:
        message = (
            f"{count} pairs show less than four times in five that equal models keep to {condition.margin:g}"
        )
        diagnostics.add(UNDERPOWERED_MARGIN, (*path, "margin"), message, help=_required_items(needed))
    else:
        message = f"{count} pairs tell a gain of {condition.margin + effect:g} less than four times in five"
        diagnostics.add(
            UNDETECTABLE_EFFECT, (*path, "min_detectable_effect"), message, help=_required_items(needed)
        )


def _required_items(needed: int) -> str:
    return f"{needed:,} would do" if needed > 0 else "no number of items would do"
