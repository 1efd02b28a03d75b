"""The options --name, --tag and --note, which say what the user calls a run."""

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from posttrain.cli.invalid_usage import InvalidUsage

if TYPE_CHECKING:
    from collections.abc import Generator

    from posttrain.runtime.store.run_labels import RunLabels


def label_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The three options; the command takes them as name, tags and note."""
    for option in (
        click.option("--note", metavar="TEXT", help="A note on the run."),
        click.option("--tag", "tags", metavar="TAG", multiple=True, help="A tag; can be repeated."),
        click.option("--name", metavar="NAME", help="A name for the run, for lists and comparisons."),
    ):
        command = option(command)
    return command


def new_labels(name: str | None, tags: Sequence[str], note: str | None) -> "RunLabels | None":
    """The labels of a new run; None without options."""
    if name is None and not tags and note is None:
        return None
    from posttrain.runtime.store.run_labels import RunLabels, check_labels

    with invalid_labels_as_usage_errors():
        return check_labels(RunLabels(name=name or "", tags=tuple(tags), note=note or ""))


@contextmanager
def invalid_labels_as_usage_errors() -> "Generator[None]":
    from posttrain.runtime.store.run_labels import LabelError

    try:
        yield
    except LabelError as error:
        raise InvalidUsage(str(error)) from None
