"""--only, --from, --until and --skip, for the commands that carry out or show a part of a plan."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from posttrain.cli.loading import Misuse
from posttrain.spec.plan import Plan

if TYPE_CHECKING:
    from posttrain.runtime.execution.selection import Selection

_OPTIONS = (
    ("--only", "only", "These stages, with the models and datasets that they are made from."),
    ("--from", "first", "These stages and what depends on them."),
    ("--until", "last", "These stages and what they depend on."),
    ("--skip", "skip", "Not these stages. A gate that is skipped holds nothing back."),
)


def selecting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The four options; the command takes them as only, first, last and skip."""
    for option, name, text in reversed(_OPTIONS):
        command = click.option(option, name, multiple=True, metavar="STAGE,...", help=text)(command)
    return command


def selected(
    plan: Plan, only: Sequence[str], first: Sequence[str], last: Sequence[str], skip: Sequence[str]
) -> "Selection | None":
    """What the options leave of the plan; None when none was given."""
    if not (only or first or last or skip):
        return None
    from posttrain.runtime.execution.selection import Unselectable, Wish, select

    wish = Wish(only=_names(only), first=_names(first), last=_names(last), skip=_names(skip))
    try:
        return select(plan, wish)
    except Unselectable as error:
        raise Misuse(str(error)) from None


def _names(given: Sequence[str]) -> list[str]:
    return [name.strip() for text in given for name in text.split(",") if name.strip()]
