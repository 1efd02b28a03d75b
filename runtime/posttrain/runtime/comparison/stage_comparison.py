"""Compares a stage of two runs: its metrics item by item, and the items with another outcome."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from posttrain.runtime.comparison.changed_items import ChangedItems, find_changed_items
from posttrain.runtime.comparison.compared_run import ComparedRun, shared_stages
from posttrain.runtime.comparison.eval_conditions import same_data_input, unequal_conditions
from posttrain.runtime.comparison.paired_items import PairedFiles, open_pair
from posttrain.runtime.evaluation.metric_items import item_file, read_metric_items
from posttrain.runtime.evaluation.statistics.metric_estimates import CONFIDENCE
from posttrain.runtime.evaluation.statistics.verdicts import compare_items
from posttrain.runtime.report.number_format import finite_or_none, mapping_or_empty, plural
from posttrain.runtime.report.run_record import StepRecord

# How many of the items without a counterpart are named.
_MAX_NAMED = 12
# What a metric measures. Metrics that differ in it have nothing but the name in common.
_DEFINITION = ("kind", "node", "k", "range")
# The metrics on held-out rows that improve as they fall; the metrics of evals improve as they rise.
_LOWER_IS_BETTER = ("eval_loss",)


@dataclass(frozen=True, kw_only=True)
class UnpairedItem:
    """An item that does not count in a paired comparison."""

    # The mark of the run that has the item.
    mark: str
    name: str
    cause: str


@dataclass(frozen=True, kw_only=True)
class MetricComparison:
    """A metric of a stage in two runs."""

    name: str
    # As the facts of the product record them; None in a run without the metric.
    base: Mapping[str, Any] | None
    other: Mapping[str, Any] | None
    # The other run minus the baseline, as `compare_items` estimates it; None if the items are not paired.
    paired: Mapping[str, Any] | None = None
    unpaired_count: int = 0
    # The first of them.
    unpaired: tuple[UnpairedItem, ...] = ()
    # Why the items are not paired.
    reason: str = ""

    @property
    def difference(self) -> float | None:
        """The paired difference; the difference of the values if the items are not paired."""
        if self.paired is not None:
            return finite_or_none(self.paired.get("value"))
        old, new = (finite_or_none(mapping_or_empty(side).get("value")) for side in (self.base, self.other))
        return None if old is None or new is None else new - old


@dataclass(frozen=True, kw_only=True)
class StageComparison:
    """A stage of two runs that at least one of them measured."""

    stage: str
    metrics: tuple[MetricComparison, ...]
    # Why no item of the stage is paired; empty if the items are.
    reasons: tuple[str, ...] = ()
    changed: ChangedItems | None = None


def compare_run_stages(base: ComparedRun, other: ComparedRun) -> list[StageComparison]:
    """The stages with metrics, in the order of the plan."""
    found = (
        _compare_stage(base, other, base.step(stage), other.step(stage))
        for stage in shared_stages([base, other])
    )
    return [stage for stage in found if stage is not None]


def _compare_stage(
    base: ComparedRun, other: ComparedRun, old: StepRecord | None, new: StepRecord | None
) -> StageComparison | None:
    record = new or old
    sides = [mapping_or_empty(one.facts.get("metrics")) if one else {} for one in (old, new)]
    names = list(dict.fromkeys([*sides[0], *sides[1]]))
    if record is None or not names:
        return None
    metrics = [
        MetricComparison(name=name, base=_metric(sides[0], name), other=_metric(sides[1], name))
        for name in names
    ]
    stage = StageComparison(stage=record.id, metrics=tuple(metrics))
    if old is None or new is None or not all(sides):
        return _not_paired(stage, [f"only {(base if sides[0] else other).mark} has metrics of this stage"])
    reasons = unequal_conditions(old, new, base.record, other.record)
    reasons += [
        f"the product of {run.mark} is not in the store"
        for run, one in ((base, old), (other, new))
        if one.folder is None
    ]
    if reasons or old.folder is None or new.folder is None:
        return _not_paired(stage, reasons)
    return _Pairing(base, other, old, new, old.folder, new.folder).compare(stage)


def _metric(found: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    return mapping_or_empty(found[name]) if name in found else None


def _not_paired(stage: StageComparison, reasons: Sequence[str]) -> StageComparison:
    metrics = (replace(metric, reason="; ".join(reasons)) for metric in stage.metrics)
    return replace(stage, metrics=tuple(metrics), reasons=tuple(reasons))


@dataclass(frozen=True)
class _Pairing:
    """A stage whose product both runs have, under equal conditions."""

    base: ComparedRun
    other: ComparedRun
    old: StepRecord
    new: StepRecord
    old_files: Path
    new_files: Path

    def compare(self, stage: StageComparison) -> StageComparison:
        import duckdb

        try:
            with ExitStack() as stack:
                files = stack.enter_context(open_pair(item_file(self.old_files), item_file(self.new_files)))
                if different := self._different_data(files):
                    return _not_paired(stage, [different])
                metrics = tuple(self._pair_metric(metric, files) for metric in stage.metrics)
                changed = find_changed_items(files, self.base, self.other, self.old, self.new)
        except (OSError, duckdb.Error) as error:
            return _not_paired(stage, [f"the rows are not readable ({type(error).__name__})"])
        return replace(stage, metrics=metrics, changed=changed)

    def _different_data(self, files: PairedFiles) -> str:
        """Whether the evals measured different rows. A few different rows of one dataset are only left out,
        because the key of a dataset that is not pinned does not guarantee equal rows."""
        if files.all_equal or (files.pairs and same_data_input(self.old, self.new)):
            return ""
        counts = [plural(len(files.pairs) + len(only), "row") for only in (files.base_only, files.other_only)]
        return (
            f"different eval data: {counts[0]} in {self.base.mark}, {counts[1]} in {self.other.mark},"
            f" {len(files.pairs):,} of them equal"
        )

    def _pair_metric(self, metric: MetricComparison, files: PairedFiles) -> MetricComparison:
        if metric.base is None or metric.other is None:
            only = self.base if metric.other is None else self.other
            return replace(metric, reason=f"only {only.mark} has this metric")
        if any(metric.base.get(part) != metric.other.get(part) for part in _DEFINITION):
            return replace(metric, reason="the metric is defined differently")
        sides = zip(("base", "other"), (metric.base, metric.other), strict=True)
        if any(f"node:{one.get('node')}" not in files.columns(side) for side, one in sides):
            return replace(metric, reason="it is not a mean over items")
        try:
            found = (
                read_metric_items(self.old_files, metric.name),
                read_metric_items(self.new_files, metric.name),
            )
        except (KeyError, TypeError, ValueError):
            return replace(metric, reason="the metric is missing from the product")
        before, after = files.align("base", found[0].values), files.align("other", found[1].values)
        bounds = found[0].bounds if found[1].bounds is None else found[1].bounds
        if found[0].bounds is not None and found[1].bounds is not None:
            bounds = found[0].bounds.join(found[1].bounds)
        seed = mapping_or_empty(self.old.step.params).get("seed")
        paired = compare_items(after, before, 0.0, CONFIDENCE, seed if isinstance(seed, int) else 0, bounds)
        if not paired["items"]:
            return replace(metric, reason="no item has a value in both runs")
        if metric.name in _LOWER_IS_BETTER:
            paired |= {"better": paired["worse"], "worse": paired["better"]}
        alone = sorted(before.keys() ^ after.keys())
        return replace(
            metric,
            paired=paired,
            unpaired_count=len(alone),
            unpaired=tuple(self._name_unpaired(alone[:_MAX_NAMED], files, before)),
        )

    def _name_unpaired(
        self, items: Sequence[int], files: PairedFiles, before: Mapping[int, float]
    ) -> Iterator[UnpairedItem]:
        """The items of one run only, and those with a value in one run only."""
        old = [item for item in items if item in before]
        new = {item: files.pairs[item] if item >= 0 else -1 - item for item in items if item not in before}
        names = files.name("base", old), files.name("other", list(new.values()))
        for item in items:
            is_old = item in before
            has, lacks = (self.base, self.other) if is_old else (self.other, self.base)
            paired = item in files.pairs
            yield UnpairedItem(
                mark=has.mark,
                name=names[0][item] if is_old else names[1][new[item]],
                cause=f"no value in {lacks.mark}" if paired else f"not in the data of {lacks.mark}",
            )
