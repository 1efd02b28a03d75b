"""`recipe ui`: a local web page of all runs, which follows those that run."""

import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

import click

from posttrain.cli.home_option import resolve_home

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from posttrain.runtime.comparison.recipe_differences import RecipeDifferences
    from posttrain.runtime.store.home import Home
    from posttrain.runtime.ui.ui_server import UiServer


@click.command("ui")
@click.option(
    "--home",
    "folders",
    metavar="DIR",
    multiple=True,
    help="A folder of runs and products, also several times; default: $RECIPE_HOME, or .recipe.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    help="The port; default: a free one. A fixed port serves an SSH tunnel.",
)
@click.option(
    "--open/--no-open",
    "show",
    default=None,
    help="Open the page in a browser; default: if this is a terminal of a desktop.",
)
def command(folders: tuple[str, ...], port: int, show: bool | None) -> None:
    """Serve the runs of one or more homes on 127.0.0.1.

    The page lists all runs. The page of a run has the sections of its report and follows it: states, curves,
    samples, logs, memory, disk and GPUs, and a button that stops it at a checkpoint. Only a browser with the
    printed address can open it. Ctrl-C ends the server, not the runs.
    """
    homes = list(dict.fromkeys(map(resolve_home, folders or (None,))))
    server = _create_server(homes, port)
    signal.signal(signal.SIGTERM, _end)
    click.echo(server.url)
    if _has_desktop() if show is None else show:
        click.launch(server.url)
    with server, suppress(KeyboardInterrupt):
        server.serve_forever()


def _create_server(homes: "list[Home]", port: int) -> "UiServer":
    from posttrain.runtime.ui.ui_server import UiServer

    try:
        return UiServer(homes, _compare_recipes, port)
    except OSError as error:
        advice = "without --port, a free one is used"
        raise click.ClickException(f"port {port} of 127.0.0.1: {error.strerror}; {advice}") from None


def _compare_recipes(runs: "Sequence[Path]") -> "RecipeDifferences":
    from posttrain.cli.run_recipes import compare_run_recipes

    return compare_run_recipes(runs)


def _has_desktop() -> bool:
    names = ("DISPLAY", "WAYLAND_DISPLAY")
    return sys.stdout.isatty() and (sys.platform == "darwin" or any(os.environ.get(name) for name in names))


def _end(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt
