"""Benchmark stages: the tasks, what they ask of the models, and the metrics that they give."""

import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.compiler.benchmarks import known
from posttrain.compiler.benchmarks.codes import (
    NEEDS_LIKELIHOOD,
    UNKNOWN_TASK,
    UNSAFE_CODE,
)
from posttrain.compiler.benchmarks.known import Kind
from posttrain.compiler.benchmarks.own import own_task
from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.diagnosis.suggest import hint
from posttrain.compiler.files import user_file
from posttrain.compiler.resolution.names import Named, writers_of
from posttrain.compiler.stages.asking import Asking, Subject
from posttrain.compiler.stages.asking_codes import CANNOT_ASK
from posttrain.compiler.stages.evals import Metric
from posttrain.compiler.stages.prompting import Prompting
from posttrain.compiler.text.source import Request
from posttrain.compiler.text.tree import Path
from posttrain.spec.extension import Engine
from posttrain.spec.measuring import Benchmark
from posttrain.spec.plan import UserFile
from posttrain.spec.record import record
from posttrain.spec.types import Interval

_COMMIT = re.compile("[0-9a-f]{40}")  # a branch or a tag may come to name something else
_RATE, _ANY = Interval(0.0, 1.0), Interval.everything()


@record(kw_only=True)
class Task:
    """A task as a stage puts it."""

    name: str
    kind: Kind
    # The file that holds it; None for one that comes with lm-eval.
    file: str | None
    at_hand: bool


@record(kw_only=True)
class Benchmarking:
    """A checked benchmark stage. To gates it is an eval."""

    stage: Benchmark
    asking: Asking
    tasks: tuple[Task, ...]
    # Groups by name: their tasks, and the metrics that are means over all their items.
    groups: Mapping[str, Mapping[str, Any]]
    measured: Mapping[str, Metric]

    @property
    def samples(self) -> int:
        return 1

    @property
    def mistaken(self) -> frozenset[str]:
        return frozenset()

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """The metrics as others name them: of one model, or of each by its name."""
        if isinstance(self.stage.benchmark, str):
            return self.measured
        return {f"{s}.{name}": m for s in self.stage.benchmark for name, m in self.measured.items()}

    @property
    def pinned(self) -> bool:
        """Whether what is measured, and by what, stays what it is."""
        named = self.stage.revisions.values()
        commits = bool(named) and all(_COMMIT.fullmatch(revision) for revision in named)
        steady = commits or all(task.at_hand for task in self.tasks)
        return steady and all(endpoint.pinned for endpoint in self.asking.endpoints.values())

    @property
    def network(self) -> bool:
        return not all(task.at_hand for task in self.tasks) or bool(self.asking.endpoints)

    def rows_of(self, metric: str) -> int | None:
        """The most items that a metric is made from, where that is known before anything runs."""
        if self.stage.limit is None:
            return None
        own = self._own(metric)
        within = [about["tasks"] for group, about in self.groups.items() if own.startswith(f"{group}.")]
        return self.stage.limit * max([1, *(len(tasks) for tasks in within)])

    def basis(self, named: Named, name: str, metric: str) -> Any:
        """What two stages must have alike to be compared item by item, by this metric."""
        own, stage = self._own(metric), self.stage
        files = tuple(task.file for task in self.tasks if own.startswith(f"{task.name}."))
        return (own, files, stage.limit, stage.shots, stage.prompts, tuple(stage.revisions.items()))

    def _own(self, metric: str) -> str:
        """A metric without the model that it is of."""
        return metric if metric in self.measured else metric.partition(".")[2]


def check_benchmark(
    name: str, stage: Benchmark, named: Named, request: Request, findings: Findings
) -> Benchmarking | None:
    path: Path = ("stages", name)
    files: dict[str, UserFile] = {}
    tasks: dict[str, Task] = {}
    groups: dict[str, Mapping[str, Any]] = {}
    good = True
    for index, given in enumerate(stage.tasks):
        found = _tasks(given, (*path, "tasks", index), files, groups, request, findings)
        good = good and found is not None
        for task in found or ():
            if task.name in tasks:
                message = f"the task `{task.name}` is put twice"
                findings.add(UNKNOWN_TASK, (*path, "tasks", index), message, help="name it once")
                good = False
            tasks[task.name] = task
    for index, given in enumerate(stage.files):
        read = user_file(given, (*path, "files", index), request.read, findings)
        if read is not None:
            files[read[0].path] = read[0]
    asking = _asking(name, stage, named, files, request, findings)
    if not good or asking is None:
        return None
    found = tuple(tasks.values())
    _check_kinds(stage, found, asking, path, findings)
    return Benchmarking(
        stage=stage, asking=asking, tasks=found, groups=groups, measured=_metrics(found, groups)
    )


def _tasks(
    given: str,
    path: Path,
    files: dict[str, UserFile],
    groups: dict[str, Mapping[str, Any]],
    request: Request,
    findings: Findings,
) -> list[Task] | None:
    """The tasks that a name stands for."""
    if given.endswith((".yaml", ".yml")):
        own = own_task(given, path, request.read, findings)
        if own is None:
            return None
        files |= own.files
        return [Task(name=own.name, kind=own.kind, file=posixpath.normpath(given), at_hand=own.at_hand)]
    if given not in known.tasks() and known.group(given) is None:
        help, meant = hint(given, known.names(), what="tasks")
        if meant is None:
            help = "the names are those of `lm-eval ls tasks`; a task of your own is a file: NAME.yaml"
        message = f"lm-eval {known.release()} has no task `{given}`"
        findings.add(UNKNOWN_TASK, path, message, help=help, replace=meant)
        return None
    leaves = known.leaves(given)
    if leaves is None:
        message = f"the group `{given}` changes its members, which are not known beforehand"
        findings.add(UNKNOWN_TASK, path, message, help="name the tasks that are to be put")
        return None
    if given not in known.tasks():
        groups[given] = {"tasks": leaves, "metrics": (known.group(given) or {}).get("metrics", [])}
    return [Task(name=one, kind=known.tasks()[one], file=None, at_hand=False) for one in leaves]


def _asking(
    name: str,
    stage: Benchmark,
    named: Named,
    files: Mapping[str, UserFile],
    request: Request,
    findings: Findings,
) -> Asking | None:
    subjects: list[Subject] = []
    written = writers_of(name, stage)
    for role, text, _ in written:
        ref = named.refs.get((f"stage:{name}", role))
        if ref is not None:
            endpoint = named.recipe.endpoints[ref.name] if ref.thing == "endpoint" else None
            engine = "transformers" if endpoint is None else "http"
            subjects.append(Subject(name=text, role=role, engine=engine, endpoint=endpoint))
    names = stage.subjects
    if not names:
        findings.add(CANNOT_ASK, ("stages", name, "benchmark"), "no model is named")
    for index, subject in enumerate(names):
        if subject in names[:index]:
            findings.add(CANNOT_ASK, ("stages", name, "benchmark", index), f"`{subject}` is named twice")
    if len(subjects) < len(written):
        return None
    found = (request.catalog.find("engine", engine) for engine in dict.fromkeys(s.engine for s in subjects))
    return Asking(
        subjects=tuple(subjects),
        engines=tuple(engine for engine in found if isinstance(engine, Engine)),
        prompting=Prompting(prompts=stage.prompts, files=files),
    )


def _check_kinds(
    stage: Benchmark, tasks: Sequence[Task], asking: Asking, path: Path, findings: Findings
) -> None:
    """Whether the models can do what the tasks ask, and what they run is allowed."""
    likely = [task.name for task in tasks if not task.kind.writes]
    if asking.endpoints and likely:
        message = f"`{next(iter(asking.endpoints))}` gives no likelihoods, which {_some(likely)} compare"
        help = "put these to models, or name variants whose answers are written"
        findings.add(NEEDS_LIKELIHOOD, (*path, "tasks"), message, help=help)
    unsafe = [task.name for task in tasks if task.kind.unsafe]
    if unsafe and not stage.unsafe_code:
        message = f"{_some(unsafe)} run what the model writes, outside any sandbox, or metrics from the hub"
        findings.add(UNSAFE_CODE, (*path, "tasks"), message, help="add `unsafe_code: true` to allow that")
    elif stage.unsafe_code and not unsafe:
        findings.add(
            UNSAFE_CODE, (*path, "unsafe_code"), "none of the tasks runs such code", help="remove it"
        )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return ", ".join(f"`{name}`" for name in names[:2]) + more


def _metrics(tasks: Sequence[Task], groups: Mapping[str, Mapping[str, Any]]) -> dict[str, Metric]:
    """What gates can name: the metrics that are means of items, of tasks and of groups."""
    found: dict[str, Metric] = {}
    for task in tasks:
        for metric, averaged in (task.kind.metrics or {}).items():
            if averaged:
                found[f"{task.name}.{metric}"] = _metric(f"{task.name}.{metric}", metric)
    for group, about in groups.items():
        for metric in about["metrics"]:
            if any(f"{task}.{metric}" in found for task in about["tasks"]):
                found[f"{group}.{metric}"] = _metric(f"{group}.{metric}", metric)
    return found


def _metric(node: str, metric: str) -> Metric:
    return Metric("rate", node, _RATE) if known.is_rate(metric) else Metric("mean", node, _ANY)
