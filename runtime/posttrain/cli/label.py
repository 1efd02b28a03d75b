"""`recipe label`: the name, the tags and the note of a run."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from posttrain.cli.home_option import home_option, resolve_home
from posttrain.cli.label_options import invalid_labels_as_usage_errors, label_options
from posttrain.cli.run_argument import find_runs

if TYPE_CHECKING:
    from posttrain.runtime.store.run_labels import RunLabels


@click.command("label")
@click.argument("run", metavar="RUN")
@label_options
@click.option("--untag", "removed", metavar="TAG", multiple=True, help="A tag to remove; can be repeated.")
@home_option
def command(
    run: str,
    name: str | None,
    tags: tuple[str, ...],
    note: str | None,
    removed: tuple[str, ...],
    home: str | None,
) -> None:
    """Change the labels of RUN, and print them.

    RUN is the start of the name of a run, the name from --name, or the path of a run's folder. An empty NAME
    or TEXT removes the name or the note. Labels change no key and no product.
    """
    from posttrain.runtime.store.run_labels import edit_labels, read_labels

    ((where, folder),) = find_runs(resolve_home(home), [run])
    if name is None and note is None and not tags and not removed:
        labels = read_labels(folder)
    else:
        with invalid_labels_as_usage_errors():
            labels = edit_labels(where, folder, _change(name, tags, note, removed))
    click.echo(f"run   {folder.name}")
    for what, text in (("name", labels.name), ("tags", ", ".join(labels.tags)), ("note", labels.note)):
        if text:
            click.echo(f"{what}  {text}")


def _change(
    name: str | None, tags: tuple[str, ...], note: str | None, removed: tuple[str, ...]
) -> "Callable[[RunLabels], RunLabels]":
    def change(labels: "RunLabels") -> "RunLabels":
        kept = {*labels.tags, *tags} - set(removed)
        return replace(
            labels,
            name=labels.name if name is None else name,
            tags=tuple(kept),
            note=labels.note if note is None else note,
        )

    return change
