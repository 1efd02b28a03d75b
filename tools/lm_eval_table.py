"""Generates the table of lm-eval's tasks that the compiler checks `benchmark` stages against.

    python tools/lm_eval_table.py

The script reads the tasks of the installed lm-eval, which must be the pinned release, and writes
compiler/posttrain/compiler/facts/lm_eval.json: the request type and the metrics of every task, and the
members of every group and tag. It loads no datasets. A test regenerates the table and compares it.
"""

import json
import logging
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

TABLE = Path(__file__).parent.parent / "compiler/posttrain/compiler/facts/lm_eval.json"
# The default metrics of a task by output type, with their aggregations.
_DEFAULT_METRICS = {
    "loglikelihood": ("perplexity", "acc"),
    "loglikelihood_rolling": ("word_perplexity", "byte_perplexity", "bits_per_byte"),
    "multiple_choice": ("acc", "acc_norm"),
    "generate_until": ("exact_match",),
}


def main() -> None:
    TABLE.write_text(render_table(build_table()), encoding="utf-8")


def build_table() -> dict[str, Any]:
    from lm_eval.tasks import TaskManager

    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    index = TaskManager().task_index
    kinds: dict[str, list[str]] = {}
    groups: dict[str, dict[str, Any]] = {}
    for name, entry in sorted(index.items()):
        if entry.kind.name in ("TASK", "PY_TASK"):
            kinds.setdefault(_line(task_kind(entry.cfg or {})), []).append(name)
        elif entry.kind.name == "TAG":
            groups[name] = {"members": sorted(member for member in entry.tags if member in index)}
        else:
            groups[name] = group_of(entry.cfg or {}, index)
    named = [{**json.loads(kind), "tasks": tasks} for kind, tasks in sorted(kinds.items())]
    release = {"lm-eval": version("lm-eval")}
    return {"release": release, **registered_metrics(), "kinds": named, "groups": groups}


def registered_metrics() -> dict[str, list[str]]:
    """The metrics of lm-eval, and those that are means by default."""
    from lm_eval.api.registry import AGGREGATION_REGISTRY, METRIC_AGGREGATION_REGISTRY, metric_registry

    mean = AGGREGATION_REGISTRY["mean"]
    averaged = sorted(name for name, how in METRIC_AGGREGATION_REGISTRY.items() if how is mean)
    return {"metrics": sorted(metric_registry), "averaged": averaged}


def task_kind(cfg: Mapping[str, Any]) -> dict[str, Any]:
    """The properties that many tasks share. Without metrics if only the code of the task defines them."""
    output = cfg.get("output_type", "generate_until")
    found: dict[str, Any] = {"output": output, "metrics": None if "class" in cfg else metrics_of(cfg, output)}
    if cfg.get("unsafe_code") or any(one.get("hf_evaluate") for one in cfg.get("metric_list") or ()):
        found["unsafe"] = True
    return found


def metrics_of(cfg: Mapping[str, Any], output: str) -> dict[str, bool]:
    """Map each metric of a task (METRIC or METRIC.FILTER) to whether it is the mean over the items."""
    from lm_eval.api.registry import AGGREGATION_REGISTRY, get_metric_aggregation

    mean = AGGREGATION_REGISTRY["mean"]
    filters = [one["name"] for one in cfg.get("filter_list") or () if isinstance(one, dict)] or ["none"]
    given = cfg.get("metric_list") or [{"metric": name} for name in _DEFAULT_METRICS[output]]
    found: dict[str, bool] = {}
    for one in given:
        name = _name(one["metric"])
        how = one.get("aggregation")
        averaged = how == "mean" if how is not None else get_metric_aggregation(name) is mean
        for each in filters:
            found[name if each == "none" else f"{name}.{each}"] = averaged
    return found


def group_of(cfg: Mapping[str, Any], index: Mapping[str, Any]) -> dict[str, Any]:
    """The names of the members, and the metrics that are means over all their items."""
    members = [one if isinstance(one, str) else one.get("task") or one.get("group") for one in cfg["task"]]
    # Members that a group defines or overrides inline have no name of their own.
    known = all(isinstance(one, str) or set(one) <= {"task", "task_alias"} for one in cfg["task"])
    own = set(cfg) - {"group", "group_alias", "task", "aggregate_metric_list", "metadata", "tag", "include"}
    found: dict[str, Any] = {"members": members}
    if own or not known or not all(member in index for member in members):
        found = {"members": None}
    listed = cfg.get("aggregate_metric_list") or []
    sums = [
        one for one in (listed if isinstance(listed, list) else [listed]) if one.get("weight_by_size", True)
    ]
    pooled = {
        f"{_name(one['metric'])}.{each}" if each != "none" else _name(one["metric"]): None
        for one in sums
        if one.get("aggregation", "mean") == "mean"
        for each in _filters(one.get("filter_list", "none"))
    }
    return {**found, "metrics": list(pooled)} if pooled else found


def _name(metric: object) -> str:
    """The name of a metric. A function next to the task has a path of this machine, so use its name."""
    return str(metric).rpartition("/")[2].rpartition(".")[2]


def _filters(given: Any) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def render_table(value: Mapping[str, Any]) -> str:
    """The table as JSON, one kind or group per line, with the names joined to one string."""
    kinds = [_line({**kind, "tasks": " ".join(kind["tasks"])}) for kind in value["kinds"]]
    groups = [
        f"{_line(name)}: {_line({**one, 'members': one['members'] and ' '.join(one['members'])})}"
        for name, one in value["groups"].items()
    ]
    inner = [
        f' "release": {_line(value["release"])}',
        f' "metrics": {_line(value["metrics"])}',
        f' "averaged": {_line(value["averaged"])}',
        ' "kinds": [\n  ' + ",\n  ".join(kinds) + "\n ]",
        ' "groups": {\n  ' + ",\n  ".join(groups) + "\n }",
    ]
    return "{\n" + ",\n".join(inner) + "\n}\n"


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    main()
