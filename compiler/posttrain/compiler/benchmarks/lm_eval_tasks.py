"""The tasks of the pinned lm-eval release, from the table that `tools/lm_eval_table.py` generates."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from posttrain.compiler.facts.fact_tables import load_table
from posttrain.spec.record import record

# Metrics that are 0 or 1 for each item. The range of all other means is unknown.
_RATE_METRICS = ("acc", "acc_norm", "acc_bytes", "acc_mutual_info", "exact_match", "em")
# The metrics of a task that lists none.
_DEFAULT_METRICS = {
    "loglikelihood": ("perplexity", "acc"),
    "loglikelihood_rolling": ("word_perplexity", "byte_perplexity", "bits_per_byte"),
    "multiple_choice": ("acc", "acc_norm"),
    "generate_until": ("exact_match",),
}


@record(kw_only=True)
class TaskKind:
    """What a task requires of a model, and the metrics that it returns."""

    output: str
    # By METRIC or METRIC.FILTER: whether the metric is the mean over the items. None if only the code of
    # the task defines the metrics.
    metrics: Mapping[str, bool] | None
    unsafe: bool = False

    @property
    def generates(self) -> bool:
        """Whether the model generates its answers. Otherwise it returns log-likelihoods of given texts."""
        return self.output == "generate_until"


def is_rate(metric: str) -> bool:
    return metric.partition(".")[0] in _RATE_METRICS


def lm_eval_version() -> str:
    return load_table("lm_eval")["release"]["lm-eval"]


def lm_eval_metrics() -> Sequence[str]:
    """Return the metrics that lm-eval implements."""
    return load_table("lm_eval")["metrics"]


@cache
def tasks() -> Mapping[str, TaskKind]:
    found: dict[str, TaskKind] = {}
    for one in load_table("lm_eval")["kinds"]:
        kind = TaskKind(output=one["output"], metrics=one["metrics"], unsafe=one.get("unsafe", False))
        found |= dict.fromkeys(one["tasks"].split(), kind)
    return found


def task_names() -> Sequence[str]:
    return [*tasks(), *load_table("lm_eval")["groups"]]


def group(name: str) -> Mapping[str, Any] | None:
    """Return a group or tag: its `members`, or None if they change at run time, and its `metrics`."""
    return load_table("lm_eval")["groups"].get(name)


def expand_group(name: str) -> list[str] | None:
    """Return the tasks of a group, including nested groups, or None if members change at run time."""
    if name in tasks():
        return [name]
    found: list[str] = []
    members = (group(name) or {}).get("members")
    if members is None:
        return None
    for member in members.split():
        inner = expand_group(member)
        if inner is None:
            return None
        found += inner
    return list(dict.fromkeys(found))


def declared_metrics(output: str, listed: Sequence[Any], filters: Sequence[str]) -> dict[str, bool]:
    """Return the metrics of a custom task, as its file lists them."""
    averaged = load_table("lm_eval")["averaged"]
    entries = [one for one in listed if isinstance(one, dict) and "metric" in one]
    found: dict[str, bool] = {}
    for one in entries or [{"metric": name} for name in _DEFAULT_METRICS.get(output, ())]:
        name = str(one["metric"]).rpartition(".")[2]
        how = one.get("aggregation")
        for each in filters or ("none",):
            found[name if each == "none" else f"{name}.{each}"] = (
                how == "mean" if how is not None else name in averaged
            )
    return found
