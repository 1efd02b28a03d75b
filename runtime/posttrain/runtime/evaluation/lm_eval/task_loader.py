"""The tasks of a benchmark: those that come with lm-eval, and the user's own files."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posttrain.runtime.errors import StepError
from posttrain.runtime.step_context import StepContext

# Builders of `datasets` that read files and no repository.
_FILE_BUILDERS = ("arrow", "csv", "json", "pandas", "parquet", "text", "xml")


class TaskLoader:
    """Makes tasks by name."""

    def __init__(self, context: StepContext) -> None:
        from lm_eval.tasks import TaskManager

        self._context = context
        self._files = {one["name"]: one["file"] for one in context.params["tasks"]}
        # Reading the thousands of tasks that come with lm-eval takes seconds.
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
        """The task, with its data loaded."""
        from lm_eval.tasks._yaml_loader import load_yaml

        config: dict[str, Any] = load_yaml(self._config_path(name), resolve_func=True)
        config["dataset_kwargs"] = self._dataset_kwargs(name, config)
        try:
            return self._manager.load([config])["tasks"][config["task"]]
        except StepError:
            raise
        except Exception as error:  # of a hub, a file, a task's own code: each has its own
            message = f"the task {name} could not be made: {type(error).__name__}: {error}"
            retriable = isinstance(error, OSError)
            raise StepError(message, "see the task's data set and its file", retriable=retriable) from error

    def _config_path(self, name: str) -> Path:
        file = self._files[name]
        if file is not None:
            return self._folder / file
        entry = self._manager.task_index.get(name)
        if entry is None or entry.yaml_path is None:
            raise StepError(
                f"lm-eval has no task {name} here", "install the release that the recipe was planned for"
            )
        return entry.yaml_path

    def _dataset_kwargs(self, name: str, config: Mapping[str, Any]) -> dict[str, Any]:
        """How the task's data are loaded: files of the user's, or a repository at its commit."""
        given: dict[str, Any] = dict(config.get("dataset_kwargs") or {})
        given.pop("trust_remote_code", None)  # posttrain runs no code that comes with data
        if config.get("dataset_path") in _FILE_BUILDERS:
            if "data_files" in given:
                given["data_files"] = self._resolve_files(given["data_files"])
                given["cache_dir"] = str(self._folder.parent / "cache")
            return given
        revisions = self._context.params["revisions"]
        if revisions and config.get("dataset_path"):
            if config["dataset_path"] not in revisions:
                message = f"the task {name} reads {config['dataset_path']}, which `revisions` does not name"
                raise StepError(message, "name a commit of every data set, or of none")
            given["revision"] = revisions[config["dataset_path"]]
        return given

    def _resolve_files(self, files: Any) -> Any:
        """Paths beside the recipe as paths of this machine; addresses stay as they are."""
        if isinstance(files, dict):
            return {part: self._resolve_files(inner) for part, inner in files.items()}
        if isinstance(files, list):
            return [self._resolve_files(inner) for inner in files]
        return files if "://" in files else str(self._folder / files)
