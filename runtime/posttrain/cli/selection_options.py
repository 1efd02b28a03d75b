"""The options --only, --from, --until and --skip, which select a part of a plan."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from posttrain.cli.invalid_usage import InvalidUsage

if TYPE_CHECKING:
    from posttrain.runtime.execution.selection import Selection, SelectionOptions
    from posttrain.spec.plan import Plan

_OPTIONS = (
    ("--only", "only", "Run only these stages, with the models and datasets that they use."),
    ("--from", "first", "Run these stages and the stages that depend on them."),
    ("--until", "last", "Run these stages and the stages that they depend on."),
    ("--skip", "skip", "Do not run these stages. A skipped gate blocks nothing."),
)


def selection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The four options; the command takes them as only, first, last and skip."""
    for option, name, text in reversed(_OPTIONS):
        command = click.option(option, name, multiple=True, metavar="STAGE,...", help=text)(command)
    return command


def parse_selection(
    only: Sequence[str], first: Sequence[str], last: Sequence[str], skip: Sequence[str]
) -> "SelectionOptions | None":
    """The stage names of the options; None without options."""
    if not (only or first or last or skip):
        return None
    from posttrain.runtime.execution.selection import SelectionOptions

    return SelectionOptions(
        only=_split_names(only),
        from_stages=_split_names(first),
        until_stages=_split_names(last),
        skip=_split_names(skip),
    )


def select_steps(plan: "Plan", options: "SelectionOptions | None") -> "Selection | None":
    """The steps that the options select; None without options."""
    if options is None:
        return None
    from posttrain.runtime.execution.run_errors import SelectionError
    from posttrain.runtime.execution.selection import select_steps

    try:
        return select_steps(plan, options)
    except SelectionError as error:
        raise InvalidUsage(str(error)) from None


def _split_names(values: Sequence[str]) -> list[str]:
    return [name.strip() for text in values for name in text.split(",") if name.strip()]
