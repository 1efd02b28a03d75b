"""Describes errors of user code: the frames of the traceback that are not ours, and the values at hand."""

import sys
import traceback
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

FIX_EXTENSION = "fix the extension; the log of the step has its traceback: `recipe logs STAGE`"
_MAX_VALUE_CHARS = 200
_MAX_FRAMES = 20
_MAX_CHARS = 6000
_OUR_FOLDERS = tuple(str(path) for path in (Path(__file__).parent, Path(__file__).parents[1] / "grading"))


def extension_traceback(error: BaseException) -> str:
    """The traceback below our own frames, if the error comes from an extension of another distribution.

    Empty for other errors: their cause can be a defect of this program.
    """
    packages = _extension_packages()
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    modules = {str(frame.f_globals.get("__name__", "")).partition(".")[0] for frame in frames}
    return foreign_traceback(error) if packages & modules else ""


def foreign_traceback(error: BaseException) -> str:
    """The traceback without our own frames."""
    whole = traceback.TracebackException.from_exception(error, limit=-_MAX_FRAMES)
    part: traceback.TracebackException | None = whole
    while part is not None:
        foreign = [frame for frame in part.stack if not frame.filename.startswith(_OUR_FOLDERS)]
        part.stack = traceback.StackSummary.from_list(foreign)
        part = part.__cause__ or part.__context__
    return "".join(whole.format())[-_MAX_CHARS:].rstrip()


def describe_values(values: Mapping[str, Any]) -> str:
    """One line for each value. Long values are cut."""
    return "\n".join(f"  {name} = {_cut(repr(value))}" for name, value in values.items())


def _cut(text: str) -> str:
    if len(text) <= _MAX_VALUE_CHARS:
        return text
    half = _MAX_VALUE_CHARS // 2
    return f"{text[:half]} ... {text[-half:]} ({len(text)} characters)"


@cache
def _extension_packages() -> frozenset[str]:
    """The packages of other distributions that contain extensions."""
    from importlib.metadata import entry_points

    found = entry_points()
    groups = [group for group in found.groups if group.startswith("posttrain.")]
    modules = (point.module for group in groups for point in found.select(group=group))
    return frozenset(module.partition(".")[0] for module in modules) - {"posttrain"}


class FirstErrors:
    """Prints the first few errors to the log of the step: thousands of rows can fail in the same way."""

    def __init__(self, limit: int = 3) -> None:
        self._left = limit

    def print(self, message: str, details: str) -> None:
        if self._left > 0:
            self._left -= 1
            sys.stderr.write(f"{message}\n{details}\n")
            sys.stderr.flush()
