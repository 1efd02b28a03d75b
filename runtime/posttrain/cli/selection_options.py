"""--only, --from, --until and --skip, for the commands that carry out or show a part of a plan."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from posttrain.cli.compile import InvalidUsage
from posttrain.spec.plan import Plan

if TYPE_CHECKING:
    from posttrain.runtime.execution.selection import Selection

_OPTIONS = (
    ("--only", "only", "These stages, with the models and datasets that they are made from."),
    ("--from", "first", "These stages and what depends on them."),
    ("--until", "last", "These stages and what they depend on."),
    ("--skip", "skip", "Not these stages. A gate that is skipped holds nothing back."),
)


def selection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The four options; the command takes them as only, first, last and skip."""
    for option, name, text in reversed(_OPTIONS):
        command = click.option(option, name, multiple=True, metavar="STAGE,...", help=text)(command)
    return command


def select_steps(
    plan: Plan, only: Sequence[str], first: Sequence[str], last: Sequence[str], skip: Sequence[str]
) -> "Selection | None":
    """What the options leave of the plan; None when none was given."""
    if not (only or first or last or skip):
        return None
    from posttrain.runtime.execution.selection import SelectionError, SelectionOptions, select_steps

    wish = SelectionOptions(
        only=_split_names(only),
        from_stages=_split_names(first),
        until_stages=_split_names(last),
        skip=_split_names(skip),
    )
    try:
        return select_steps(plan, wish)
    except SelectionError as error:
        raise InvalidUsage(str(error)) from None


def _split_names(given: Sequence[str]) -> list[str]:
    return [name.strip() for text in given for name in text.split(",") if name.strip()]
