"""Reads a custom benchmark task: its file, its includes, its data and its Python code, with their digests."""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from posttrain.compiler.benchmarks.benchmark_codes import BAD_TASK_FILE
from posttrain.compiler.benchmarks.lm_eval_tasks import TaskKind, declared_metrics, lm_eval_metrics
from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.compiler.user_files import is_outside_folder, user_file
from posttrain.spec.plan import UserFile
from posttrain.spec.record import record
from posttrain.spec.suggestions import hint

_FUNCTION = "!function"
_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*")
# The builders of `datasets` that read local files.
FILE_BUILDERS = ("arrow", "csv", "json", "pandas", "parquet", "text", "xml")
_OUTPUTS = ("generate_until", "multiple_choice", "loglikelihood", "loglikelihood_rolling")


@record(kw_only=True)
class CustomTask:
    name: str
    kind: TaskKind
    files: Mapping[str, UserFile]
    # Whether its data are local files, or its own code generates them.
    is_local: bool


class _Function(str):
    """The name that follows `!function`."""


class _InvalidTask(Exception):
    """Stops reading a task after an error was reported."""


def read_custom_task(
    name: str, path: KeyPath, request: CompileRequest, diagnostics: Diagnostics
) -> CustomTask | None:
    """Return the task in a local file, or None if it is invalid."""
    reader = _TaskReader(path, request, diagnostics)
    try:
        given = reader.load_task(posixpath.normpath(name))
        return _build_task(given, name, reader)
    except _InvalidTask:
        return None


class _TaskReader:
    def __init__(self, path: KeyPath, request: CompileRequest, diagnostics: Diagnostics) -> None:
        self.files: dict[str, UserFile] = {}
        self._path, self._request, self._findings = path, request, diagnostics

    def fail(self, message: str, help: str = "") -> _InvalidTask:
        self._findings.add(BAD_TASK_FILE, self._path, message, help=help)
        return _InvalidTask()

    def read_file(self, name: str) -> bytes:
        """Return the content of a file, and add its digest to the stage."""
        found = user_file(name, self._path, self._request, self._findings)
        if found is None:
            raise _InvalidTask
        self.files[found[0].path] = found[0]
        return found[1]

    def load_task(self, name: str, above: tuple[str, ...] = ()) -> dict[str, Any]:
        """Return the content of a task file, merged over the files that it includes."""
        if name in above:
            raise self.fail(f"circular include of `{name}`")
        folder = posixpath.dirname(name)
        own = self._load_yaml(name)
        for function in _find_functions(own):
            self._add_function_file(function, folder)
        includes = own.pop("include", [])
        below: dict[str, Any] = {}
        for one in includes if isinstance(includes, list) else [includes]:
            below |= self.load_task(posixpath.normpath(posixpath.join(folder, str(one))), (*above, name))
        return {**below, **own}

    def _load_yaml(self, name: str) -> dict[str, Any]:
        from ruamel.yaml.error import YAMLError

        try:
            found = _task_yaml().load(self.read_file(name).decode("utf-8"))
        except (YAMLError, UnicodeDecodeError, ValueError) as error:
            message = " ".join(str(error).split())[:200]
            raise self.fail(f"`{name}` is not valid YAML: {message}") from None
        if not isinstance(found, dict):
            raise self.fail(f"`{name}` has no task: a task is a mapping")
        return found

    def _add_function_file(self, function: str, folder: str) -> None:
        module, _, name = function.rpartition(".")
        file = posixpath.normpath(posixpath.join(folder, f"{module.replace('.', '/')}.py"))
        if not module or not name or is_outside_folder(file) or self._request.read(file) is None:
            message = f"`!function {function}` does not name a function in a local file"
            raise self.fail(message, f"define it in `{file}`" if module else "write !function FILE.NAME")
        self.read_file(file)


def _task_yaml() -> Any:
    """Return a YAML reader that knows `!function`. Only task files use it."""
    from ruamel.yaml import YAML
    from ruamel.yaml.constructor import SafeConstructor

    class Constructor(SafeConstructor):
        pass

    def function(constructor: Any, node: Any) -> _Function:
        return _Function(constructor.construct_scalar(node))

    Constructor.add_constructor(_FUNCTION, function)
    yaml: Any = YAML(typ="safe", pure=True)
    yaml.Constructor = Constructor
    return yaml


def _find_functions(value: Any) -> Iterator[str]:
    if isinstance(value, _Function):
        yield str(value)
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _find_functions(inner)


def _build_task(given: Mapping[str, Any], file: str, reader: _TaskReader) -> CustomTask:
    name, output = given.get("task"), given.get("output_type", "generate_until")
    if not isinstance(name, str) or "group" in given:
        raise reader.fail(f"`{file}` does not define a single task", "add its name: `task: NAME`")
    if not _NAME.fullmatch(name):
        raise reader.fail(f"`{name}` is not a valid task name", "use letters, digits, `-` and `_`")
    if output not in _OUTPUTS:
        raise reader.fail(f"`output_type` of `{file}` must be one of {', '.join(_OUTPUTS)}")
    filters = [str(one["name"]) for one in given.get("filter_list") or () if isinstance(one, dict)]
    listed = [one for one in given.get("metric_list") or () if isinstance(one, dict)]
    metrics = None if "class" in given else declared_metrics(output, listed, filters)
    is_local = _add_data_files(given, file, reader)
    fetched = any(one.get("hf_evaluate") for one in listed)
    if "process_results" not in given and "class" not in given:
        _check_metrics([one.get("metric") for one in listed if not one.get("hf_evaluate")], file, reader)
    kind = TaskKind(output=output, metrics=metrics, unsafe=bool(given.get("unsafe_code")) or fetched)
    return CustomTask(name=name, kind=kind, files=reader.files, is_local=is_local)


def _check_metrics(names: Sequence[Any], file: str, reader: _TaskReader) -> None:
    """Reject metrics that lm-eval does not have: it would look for them on the hub."""
    for name in names:
        if not isinstance(name, _Function) and name not in lm_eval_metrics():
            help, _ = hint(str(name), lm_eval_metrics(), what="metrics")
            more = "a custom function is `!function FILE.NAME`"
            raise reader.fail(
                f"`{file}` uses the metric `{name}`, which lm-eval does not have", f"{help}; {more}"
            )


def _add_data_files(given: Mapping[str, Any], file: str, reader: _TaskReader) -> bool:
    """Add the data files of the task. Return whether all of its data is local."""
    where = given.get("dataset_path")
    if "custom_dataset" in given or "class" in given:
        return True
    if not isinstance(where, str):
        raise reader.fail(f"`{file}` has no data", "add `dataset_path`")
    if where not in FILE_BUILDERS:
        if where.startswith((".", "/")):
            message = f"`{file}` reads its data from the folder `{where}`"
            raise reader.fail(
                message, "set `dataset_path` to json or csv, and list the files in `data_files`"
            )
        return False
    given_files = (given.get("dataset_kwargs") or {}).get("data_files")
    if given_files is None:
        raise reader.fail(f"`{file}` lists no data files", "add `dataset_kwargs: {data_files: ...}`")
    is_local = True
    for each in _file_names(given_files):
        if "://" in each:
            is_local = False
        else:
            reader.read_file(each)
    return is_local


def _file_names(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _file_names(inner)
    else:
        yield str(value)
