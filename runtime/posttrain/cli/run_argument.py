"""The argument RUN of commands that take several runs, of one or more homes."""

from collections.abc import Sequence
from pathlib import Path

from posttrain.cli.home_option import find_run
from posttrain.cli.invalid_usage import InvalidUsage
from posttrain.runtime.store.home import Home

FoundRun = tuple[Home, Path]


def run_folder(argument: str) -> FoundRun | None:
    """The run whose folder an argument is the path of, with its home; None for any other argument."""
    path = Path(argument)
    if not (path / "plan.json").is_file():
        return None
    folder = path.resolve()
    return (Home(folder.parent.parent), folder) if folder.parent.name == "runs" else None


def find_runs(home: Home, arguments: Sequence[str]) -> list[FoundRun]:
    """The runs that the arguments name. A run that two of them name is an invalid command line."""
    found = [run_folder(argument) or (home, find_run(home, argument)) for argument in arguments]
    named: dict[Path, str] = {}
    for argument, (_, run) in zip(arguments, found, strict=True):
        if run in named:
            raise InvalidUsage(
                f"`{named[run]}` and `{argument}` are the same run, {run.name}; name each run once"
            )
        named[run] = argument
    return found
