"""A task of the user's: its file, what that includes, its data and its Python, each with its digest."""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from posttrain.compiler.benchmarks.codes import BAD_TASK_FILE
from posttrain.compiler.benchmarks.known import Kind, metrics_of, own_metrics
from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.diagnosis.suggest import hint
from posttrain.compiler.files import user_file
from posttrain.compiler.text.source import ReadFile
from posttrain.compiler.text.tree import Path
from posttrain.spec.plan import UserFile
from posttrain.spec.record import record

_FUNCTION = "!function"
_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*")
# Builders of `datasets` that read files and no repository.
OF_FILES = ("arrow", "csv", "json", "pandas", "parquet", "text", "xml")
_OUTPUTS = ("generate_until", "multiple_choice", "loglikelihood", "loglikelihood_rolling")


@record(kw_only=True)
class OwnTask:
    name: str
    kind: Kind
    files: Mapping[str, UserFile]
    # Whether its data are files beside the recipe, or made by its own code.
    at_hand: bool


class _Function(str):
    """What stands behind `!function`."""


class _Refused(Exception):
    """Ends the reading; the reason has been reported."""


def own_task(name: str, path: Path, read: ReadFile, findings: Findings) -> OwnTask | None:
    """The task in a file beside the recipe, or None when that was reported."""
    reader = _Reader(path, read, findings)
    try:
        given = reader.whole(posixpath.normpath(name))
        return _task(given, name, reader)
    except _Refused:
        return None


class _Reader:
    def __init__(self, path: Path, read: ReadFile, findings: Findings) -> None:
        self.files: dict[str, UserFile] = {}
        self._path, self._read, self._findings = path, read, findings

    def refuse(self, message: str, help: str = "") -> _Refused:
        self._findings.add(BAD_TASK_FILE, self._path, message, help=help)
        return _Refused()

    def take(self, name: str) -> bytes:
        """A file's content. Its digest becomes part of the stage."""
        found = user_file(name, self._path, self._read, self._findings)
        if found is None:
            raise _Refused
        self.files[found[0].path] = found[0]
        return found[1]

    def whole(self, name: str, above: tuple[str, ...] = ()) -> dict[str, Any]:
        """What a task file says, with what it includes beneath."""
        if name in above:
            raise self.refuse(f"`{name}` includes files without end")
        folder = posixpath.dirname(name)
        own = self._mapping(name)
        for function in _functions(own):
            self._code(function, folder)
        includes = own.pop("include", [])
        below: dict[str, Any] = {}
        for one in includes if isinstance(includes, list) else [includes]:
            below |= self.whole(posixpath.normpath(posixpath.join(folder, str(one))), (*above, name))
        return {**below, **own}

    def _mapping(self, name: str) -> dict[str, Any]:
        from ruamel.yaml.error import YAMLError

        try:
            found = _yaml().load(self.take(name).decode("utf-8"))
        except (YAMLError, UnicodeDecodeError, ValueError) as error:
            said = " ".join(str(error).split())[:200]
            raise self.refuse(f"`{name}` is no YAML: {said}") from None
        if not isinstance(found, dict):
            raise self.refuse(f"`{name}` holds no task: a task is a mapping")
        return found

    def _code(self, function: str, folder: str) -> None:
        module, _, name = function.rpartition(".")
        file = posixpath.normpath(posixpath.join(folder, f"{module.replace('.', '/')}.py"))
        if not module or not name or file.startswith("..") or self._read(file) is None:
            message = f"`!function {function}` names no function of a file beside the task"
            raise self.refuse(message, f"write it in `{file}`" if module else "write !function FILE.NAME")
        self.take(file)


def _yaml() -> Any:
    """A reader of task files. It is given to no other use: it knows `!function`."""
    from ruamel.yaml import YAML
    from ruamel.yaml.constructor import SafeConstructor

    class Constructor(SafeConstructor):
        pass

    def function(constructor: Any, node: Any) -> _Function:
        return _Function(constructor.construct_scalar(node))

    Constructor.add_constructor(_FUNCTION, function)
    made: Any = YAML(typ="safe", pure=True)
    made.Constructor = Constructor
    return made


def _functions(value: Any) -> Iterator[str]:
    if isinstance(value, _Function):
        yield str(value)
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _functions(inner)


def _task(given: Mapping[str, Any], file: str, reader: _Reader) -> OwnTask:
    name, output = given.get("task"), given.get("output_type", "generate_until")
    if not isinstance(name, str) or "group" in given:
        raise reader.refuse(f"`{file}` holds no single task", "a task has a name: `task: NAME`")
    if not _NAME.fullmatch(name):
        raise reader.refuse(f"`{name}` cannot name a task", "take letters, digits, `-` and `_`")
    if output not in _OUTPUTS:
        raise reader.refuse(f"`output_type` of `{file}` is none of {', '.join(_OUTPUTS)}")
    filters = [str(one["name"]) for one in given.get("filter_list") or () if isinstance(one, dict)]
    listed = [one for one in given.get("metric_list") or () if isinstance(one, dict)]
    metrics = None if "class" in given else metrics_of(output, listed, filters)
    at_hand = _data(given, file, reader)
    fetched = any(one.get("hf_evaluate") for one in listed)
    if "process_results" not in given and "class" not in given:
        _check_metrics([one.get("metric") for one in listed if not one.get("hf_evaluate")], file, reader)
    kind = Kind(output=output, metrics=metrics, unsafe=bool(given.get("unsafe_code")) or fetched)
    return OwnTask(name=name, kind=kind, files=reader.files, at_hand=at_hand)


def _check_metrics(names: Sequence[Any], file: str, reader: _Reader) -> None:
    """What lm-eval does not know it would look for on the hub."""
    for name in names:
        if not isinstance(name, _Function) and name not in own_metrics():
            help, _ = hint(str(name), own_metrics(), what="metrics")
            more = "a function of yours is `!function FILE.NAME`"
            raise reader.refuse(
                f"`{file}` names the metric `{name}`, which lm-eval does not have", f"{help}; {more}"
            )


def _data(given: Mapping[str, Any], file: str, reader: _Reader) -> bool:
    """Take the task's data files; whether nothing else is needed for its data."""
    where = given.get("dataset_path")
    if "custom_dataset" in given or "class" in given:
        return True
    if not isinstance(where, str):
        raise reader.refuse(f"`{file}` does not say where its data are", "write `dataset_path`")
    if where not in OF_FILES:
        if where.startswith((".", "/")):
            message = f"`{file}` reads its data from the folder `{where}`"
            raise reader.refuse(message, "write `dataset_path: json`, say, and name the files: `data_files`")
        return False
    given_files = (given.get("dataset_kwargs") or {}).get("data_files")
    if given_files is None:
        raise reader.refuse(f"`{file}` names no data files", "add `dataset_kwargs: {data_files: ...}`")
    at_hand = True
    for each in _texts(given_files):
        if "://" in each:
            at_hand = False
        else:
            reader.take(each)
    return at_hand


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)
    else:
        yield str(value)
