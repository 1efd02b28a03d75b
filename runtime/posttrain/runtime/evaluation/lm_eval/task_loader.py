"""Loads the tasks of a benchmark, from lm-eval or from user files."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.runtime.step_context import StepContext
from posttrain.spec.step_params.eval_params import BenchmarkStepParams

# Builders of `datasets` that read files instead of a repository.
_FILE_BUILDERS = ("arrow", "csv", "json", "pandas", "parquet", "text", "xml")


class TaskLoader:
    """Loads tasks by name."""

    def __init__(self, context: StepContext[BenchmarkStepParams]) -> None:
        from lm_eval.tasks import TaskManager

        self._context = context
        self._files = {task.name: task.file for task in context.params.tasks}
        # Indexing lm-eval's own tasks takes seconds, so it is done only if one is used.
        self._manager = TaskManager(include_defaults=None in self._files.values())
        self._folder = context.work / "scratch" / "tasks"
        for name, file in context.files.items():
            place = self._folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)

    @property
    def names(self) -> list[str]:
        return list(self._files)

    def load(self, name: str) -> Any:
        """Load a task with its data."""
        from lm_eval.tasks._yaml_loader import load_yaml

        config: dict[str, Any] = load_yaml(self._config_path(name), resolve_func=True)
        config["dataset_kwargs"] = self._dataset_kwargs(name, config)
        try:
            return self._manager.load([config])["tasks"][config["task"]]
        except StepError:
            raise
        except Exception as error:  # from the hub, a file, or the task's code
            message = f"cannot load the task {name}: {type(error).__name__}: {error}"
            retriable = isinstance(error, OSError)
            raise StepError(message, "check the task's dataset and its file", retriable=retriable) from error

    def _config_path(self, name: str) -> Path:
        file = self._files[name]
        if file is not None:
            return self._folder / file
        entry = self._manager.task_index.get(name)
        if entry is None or entry.yaml_path is None:
            raise StepError(
                f"the installed lm-eval has no task {name}",
                "install the version of lm-eval that the plan was made with",
            )
        return entry.yaml_path

    def _dataset_kwargs(self, name: str, config: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of `load_dataset`: paths of user files, or the commit of a repository."""
        kwargs: dict[str, Any] = dict(config.get("dataset_kwargs") or {})
        kwargs.pop("trust_remote_code", None)  # posttrain never runs code from a dataset
        if config.get("dataset_path") in _FILE_BUILDERS:
            if "data_files" in kwargs:
                kwargs["data_files"] = self._resolve_files(kwargs["data_files"])
                kwargs["cache_dir"] = str(self._folder.parent / "cache")
            return kwargs
        revisions = self._context.params.revisions
        if revisions and config.get("dataset_path"):
            if config["dataset_path"] not in revisions:
                message = (
                    f"`revisions` has no commit for {config['dataset_path']}, which the task {name} reads"
                )
                raise StepError(message, "set a commit for every dataset, or for none")
            kwargs["revision"] = revisions[config["dataset_path"]]
        return kwargs

    def _resolve_files(self, files: Any) -> Any:
        """Convert paths relative to the recipe to absolute paths. URLs are unchanged."""
        if isinstance(files, dict):
            return {part: self._resolve_files(inner) for part, inner in files.items()}
        if isinstance(files, list):
            return [self._resolve_files(inner) for inner in files]
        return files if "://" in files else str(self._folder / files)
