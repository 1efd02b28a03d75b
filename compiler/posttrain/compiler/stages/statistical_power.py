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
    "`effect` says how far from the threshold, or from the margin, the gate must be able to see, four times"
    " in five. For a comparison that depends on the share of items on which the two differ: `disagreement`."
    " Add items, or look for a larger effect. Effects are of rates: a mean's spread is not known beforehand.",
    wrong=minimal_recipe(GATE_EXAMPLE, ("at_least: 0.8", "at_least: 0.8, effect: 0.05")),
    right=minimal_recipe(GATE_EXAMPLE, ("at_least: 0.8", "at_least: 0.8, effect: 0.12")),
)
UNDERPOWERED_MARGIN = Code(
    "PT0708",
    "a margin that equal models will seldom keep",
    "warning",
    "The gate tolerates a small loss. Where the two models are as good as each other, these items would show"
    " that less often than four times in five: the verdict will mostly be inconclusive. Add items, tolerate"
    " more, or say by `effect` and `disagreement` what is expected.",
    wrong=minimal_recipe(
        GATE_EXAMPLE, ("at_least: 0.8", "better_than: first.accuracy, margin: -0.05"), _FIRST
    ),
    right=minimal_recipe(
        GATE_EXAMPLE, ("at_least: 0.8", "better_than: first.accuracy, margin: -0.15"), _FIRST
    ),
)
CODES = (UNDECIDABLE_GATE, UNDETECTABLE_EFFECT, UNDERPOWERED_MARGIN)


def check_power(
    given: Condition, metric: Metric, rows: int | None, samples: int, path: KeyPath, findings: Diagnostics
) -> None:
    """Report a condition that the rows cannot decide, with the number that would do."""
    if metric.kind not in ("rate", "pass_at"):
        if given.effect is not None:
            findings.add(
                UNDETECTABLE_EFFECT,
                (*path, "effect"),
                "the spread of a mean is not known: no effect can be promised",
            )
        return
    if rows is None:
        return
    if given.better_than is not None:
        _check_pairs(given, rows, path, findings)
    else:
        _check_trials(given, rows, samples, path, findings)


def _check_trials(given: Condition, count: int, samples: int, path: KeyPath, findings: Diagnostics) -> None:
    side = "at_least" if given.at_least is not None else "at_most"
    bound = given.at_least if given.at_least is not None else given.at_most
    assert bound is not None, "a condition that compares with nothing has a threshold"
    threshold = bound if side == "at_least" else 1 - bound
    needed = min_trials_for_rate(threshold, given.confidence)
    if not 0 <= needed <= count:
        asked = f"{side.replace('_', ' ')} {bound:g}"
        message = f"{count} items cannot show {asked} with {given.confidence:.0%} confidence"
        findings.add(UNDECIDABLE_GATE, (*path, side), message, help=_required_items(needed))
    elif given.effect is not None:
        if threshold + given.effect > 1:
            message = f"no rate lies {given.effect:g} beyond {bound:g}"
            findings.add(UNDETECTABLE_EFFECT, (*path, "effect"), message)
            return
        needed = sample_size_for_rate(threshold, given.effect, given.confidence)
        # Completions of one prompt tell less than as many prompts: at best they tell as much.
        if count * samples < needed:
            found = f"a rate {given.effect:g} from {bound:g}"
            message = f"{count * samples} completions tell {found} less than four times in five"
            findings.add(UNDETECTABLE_EFFECT, (*path, "effect"), message, help=_required_items(needed))


def _check_pairs(given: Condition, count: int, path: KeyPath, findings: Diagnostics) -> None:
    needed = min_pairs_for_gain(given.margin, given.confidence)
    if not 0 <= needed <= count:
        message = f"{count} pairs cannot show a gain of more than {given.margin:g}, even if every item gains"
        findings.add(UNDECIDABLE_GATE, (*path, "better_than"), message, help=_required_items(needed))
        return
    effect = given.effect if given.effect is not None else max(0.0, -given.margin)
    if effect == 0:
        return
    if given.margin + effect > 1:
        findings.add(
            UNDETECTABLE_EFFECT, (*path, "effect"), f"no gain lies {effect:g} above {given.margin:g}"
        )
        return
    needed = sample_size_for_paired_gain(given.margin, effect, given.confidence, given.disagreement)
    if count >= needed:
        return
    if given.effect is None:
        message = (
            f"{count} pairs show less than four times in five that equal models keep to {given.margin:g}"
        )
        findings.add(UNDERPOWERED_MARGIN, (*path, "margin"), message, help=_required_items(needed))
    else:
        message = f"{count} pairs tell a gain of {given.margin + effect:g} less than four times in five"
        findings.add(UNDETECTABLE_EFFECT, (*path, "effect"), message, help=_required_items(needed))


def _required_items(needed: int) -> str:
    return f"{needed:,} would do" if needed > 0 else "no number of items would do"
