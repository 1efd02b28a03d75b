"""Checks benchmark stages: the tasks, what they require of the models, and the metrics that they return."""

import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.compiler.benchmarks import lm_eval_tasks
from posttrain.compiler.benchmarks.benchmark_codes import (
    NEEDS_LOGLIKELIHOOD,
    UNKNOWN_TASK,
    UNSAFE_CODE,
)
from posttrain.compiler.benchmarks.custom_task import read_custom_task
from posttrain.compiler.benchmarks.lm_eval_tasks import TaskKind
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.resolution.name_resolution import ResolvedRecipe, inference_models
from posttrain.compiler.stages.eval_stage import Metric
from posttrain.compiler.stages.inference import InferenceConfig, InferenceTarget
from posttrain.compiler.stages.inference_codes import UNSUPPORTED_INFERENCE
from posttrain.compiler.stages.prompting import PromptConfig
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.compiler.user_files import user_file
from posttrain.spec.column_types import Interval
from posttrain.spec.eval_stages import Benchmark
from posttrain.spec.extension import Engine
from posttrain.spec.plan import UserFile
from posttrain.spec.record import record
from posttrain.spec.step_params.eval_params import TaskGroup
from posttrain.spec.suggestions import hint

_COMMIT = re.compile("[0-9a-f]{40}")  # branches and tags can move
_RATE, _ANY = Interval(0.0, 1.0), Interval.unbounded()


@record(kw_only=True)
class Task:
    """A task of a benchmark stage."""

    name: str
    kind: TaskKind
    # The task file; None for a task of lm-eval.
    file: str | None
    is_local: bool


@record(kw_only=True)
class CheckedBenchmark:
    """A checked benchmark stage. Gates treat it as an eval."""

    stage: Benchmark
    inference: InferenceConfig
    tasks: tuple[Task, ...]
    # Groups by name: their tasks, and the metrics that are means over the items of all tasks.
    groups: Mapping[str, TaskGroup]
    task_metrics: Mapping[str, Metric]

    @property
    def samples(self) -> int:
        return 1

    @property
    def invalid_metrics(self) -> frozenset[str]:
        return frozenset()

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """The metrics by their public names: of one model, or prefixed with the name of each model."""
        if isinstance(self.stage.benchmark, str):
            return self.task_metrics
        return {f"{s}.{name}": m for s in self.stage.benchmark for name, m in self.task_metrics.items()}

    @property
    def pinned(self) -> bool:
        """Whether the tasks, their data and the models cannot change."""
        named = self.stage.revisions.values()
        commits = bool(named) and all(_COMMIT.fullmatch(revision) for revision in named)
        steady = commits or all(task.is_local for task in self.tasks)
        return steady and all(endpoint.pinned for endpoint in self.inference.endpoints.values())

    @property
    def needs_network(self) -> bool:
        return self.reads_hub or bool(self.inference.endpoints)

    @property
    def reads_hub(self) -> bool:
        """Whether the data of a task is on the hub."""
        return not all(task.is_local for task in self.tasks)

    def num_items(self, metric: str) -> int | None:
        """Return the largest number of items of a metric, or None if it is not known before the run."""
        if self.stage.limit is None:
            return None
        own = self._without_model(metric)
        within = [about.tasks for group, about in self.groups.items() if own.startswith(f"{group}.")]
        return self.stage.limit * max([1, *(len(tasks) for tasks in within)])

    def pairing_key(self, resolved: ResolvedRecipe, name: str, metric: str) -> Any:
        """Return what must be equal in two stages to compare this metric item by item."""
        own, stage = self._without_model(metric), self.stage
        files = tuple(task.file for task in self.tasks if own.startswith(f"{task.name}."))
        return (own, files, stage.limit, stage.num_fewshot, stage.prompts, tuple(stage.revisions.items()))

    def _without_model(self, metric: str) -> str:
        """Return the name of a metric without its model."""
        return metric if metric in self.task_metrics else metric.partition(".")[2]


def check_benchmark(
    name: str, stage: Benchmark, resolved: ResolvedRecipe, request: CompileRequest, diagnostics: Diagnostics
) -> CheckedBenchmark | None:
    path: KeyPath = ("stages", name)
    files: dict[str, UserFile] = {}
    tasks: dict[str, Task] = {}
    groups: dict[str, TaskGroup] = {}
    good = True
    for index, given in enumerate(stage.tasks):
        found = _expand_tasks(given, (*path, "tasks", index), files, groups, request, diagnostics)
        good = good and found is not None
        for task in found or ():
            if task.name in tasks:
                message = f"the task `{task.name}` is named twice"
                diagnostics.add(UNKNOWN_TASK, (*path, "tasks", index), message, help="name it once")
                good = False
            tasks[task.name] = task
    for index, given in enumerate(stage.files):
        read = user_file(given, (*path, "files", index), request, diagnostics)
        if read is not None:
            files[read[0].path] = read[0]
    inference = _inference_config(name, stage, resolved, files, request, diagnostics)
    if not good or inference is None:
        return None
    found = tuple(tasks.values())
    _check_task_kinds(stage, found, inference, path, diagnostics)
    return CheckedBenchmark(
        stage=stage, inference=inference, tasks=found, groups=groups, task_metrics=_metrics(found, groups)
    )


def _expand_tasks(
    given: str,
    path: KeyPath,
    files: dict[str, UserFile],
    groups: dict[str, TaskGroup],
    request: CompileRequest,
    diagnostics: Diagnostics,
) -> list[Task] | None:
    """Return the tasks of a name: a task, a group, a tag or a task file."""
    if given.endswith((".yaml", ".yml")):
        own = read_custom_task(given, path, request, diagnostics)
        if own is None:
            return None
        files |= own.files
        return [Task(name=own.name, kind=own.kind, file=posixpath.normpath(given), is_local=own.is_local)]
    if given not in lm_eval_tasks.tasks() and lm_eval_tasks.group(given) is None:
        help, meant = hint(given, lm_eval_tasks.task_names(), what="tasks")
        if meant is None:
            help = "`lm-eval ls tasks` lists the names; a custom task is a file: NAME.yaml"
        message = f"lm-eval {lm_eval_tasks.lm_eval_version()} has no task `{given}`"
        diagnostics.add(UNKNOWN_TASK, path, message, help=help, replace=meant)
        return None
    leaves = lm_eval_tasks.expand_group(given)
    if leaves is None:
        message = f"the group `{given}` changes its members at run time"
        diagnostics.add(UNKNOWN_TASK, path, message, help="name its tasks instead")
        return None
    if given not in lm_eval_tasks.tasks():
        metrics = (lm_eval_tasks.group(given) or {}).get("metrics", ())
        groups[given] = TaskGroup(tasks=tuple(leaves), metrics=tuple(metrics))
    return [Task(name=one, kind=lm_eval_tasks.tasks()[one], file=None, is_local=False) for one in leaves]


def _inference_config(
    name: str,
    stage: Benchmark,
    resolved: ResolvedRecipe,
    files: Mapping[str, UserFile],
    request: CompileRequest,
    diagnostics: Diagnostics,
) -> InferenceConfig | None:
    subjects: list[InferenceTarget] = []
    written = inference_models(name, stage)
    for role, text, _ in written:
        ref = resolved.refs.get((f"stage:{name}", role))
        if ref is not None:
            endpoint = resolved.recipe.endpoints[ref.name] if ref.kind == "endpoint" else None
            engine = "transformers" if endpoint is None else "http"
            subjects.append(InferenceTarget(name=text, role=role, engine=engine, endpoint=endpoint))
    names = stage.model_names
    if not names:
        diagnostics.add(UNSUPPORTED_INFERENCE, ("stages", name, "benchmark"), "no model is named")
    for index, subject in enumerate(names):
        if subject in names[:index]:
            diagnostics.add(
                UNSUPPORTED_INFERENCE, ("stages", name, "benchmark", index), f"`{subject}` is named twice"
            )
    if len(subjects) < len(written):
        return None
    found = (request.catalog.find("engine", engine) for engine in dict.fromkeys(s.engine for s in subjects))
    return InferenceConfig(
        targets=tuple(subjects),
        engines=tuple(engine for engine in found if isinstance(engine, Engine)),
        prompt_config=PromptConfig(prompts=stage.prompts, files=files),
    )


def _check_task_kinds(
    stage: Benchmark,
    tasks: Sequence[Task],
    inference: InferenceConfig,
    path: KeyPath,
    diagnostics: Diagnostics,
) -> None:
    """Check that the models support the tasks, and that the code that the tasks run is allowed."""
    likely = [task.name for task in tasks if not task.kind.generates]
    if inference.endpoints and likely:
        message = (
            f"`{next(iter(inference.endpoints))}` returns no log-likelihoods, but {_join_names(likely)} need"
            " them"
        )
        help = "run these tasks on models, or use variants that generate their answers"
        diagnostics.add(NEEDS_LOGLIKELIHOOD, (*path, "tasks"), message, help=help)
    unsafe = [task.name for task in tasks if task.kind.unsafe]
    if unsafe and not stage.confirm_run_unsafe_code:
        message = (
            f"{_join_names(unsafe)} run generated code without a sandbox, or code of metrics from the hub"
        )
        diagnostics.add(
            UNSAFE_CODE, (*path, "tasks"), message, help="set `confirm_run_unsafe_code: true` to allow it"
        )
    elif stage.confirm_run_unsafe_code and not unsafe:
        diagnostics.add(
            UNSAFE_CODE,
            (*path, "confirm_run_unsafe_code"),
            "no task runs unsafe code",
            help="remove the key",
        )


def _join_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return ", ".join(f"`{name}`" for name in names[:2]) + more


def _metrics(tasks: Sequence[Task], groups: Mapping[str, TaskGroup]) -> dict[str, Metric]:
    """Return the metrics that gates can name: the means over items, of tasks and of groups."""
    found: dict[str, Metric] = {}
    for task in tasks:
        for metric, averaged in (task.kind.metrics or {}).items():
            if averaged:
                found[f"{task.name}.{metric}"] = _metric(f"{task.name}.{metric}", metric)
    for group, about in groups.items():
        for metric in about.metrics:
            if any(f"{task}.{metric}" in found for task in about.tasks):
                found[f"{group}.{metric}"] = _metric(f"{group}.{metric}", metric)
    return found


def _metric(node: str, metric: str) -> Metric:
    return Metric("rate", node, _RATE) if lm_eval_tasks.is_rate(metric) else Metric("mean", node, _ANY)
