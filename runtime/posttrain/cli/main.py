"""The `recipe` command group. A command is imported on first use."""

import errno
import gc
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from posttrain.spec.version import VERSION

# Objects of a command live about as long as the command: an early collection finds no garbage.
gc.set_threshold(100_000)
# Each command is a module of this package, in the order of the help page. The help page imports none of them.
_COMMANDS: Mapping[str, str] = {
    "new": "Create a recipe from a starter.",
    "validate": "Report every error of a recipe.",
    "fmt": "Format recipes.",
    "plan": "Show the steps: cached, to resume or to run.",
    "diff": "Compare two recipes, plans or runs.",
    "lock": "Pin revisions, data and images.",
    "run": "Run a recipe.",
    "status": "Show the steps of a run.",
    "runs": "List, sort and filter runs.",
    "label": "Name, tag or annotate a run.",
    "path": "Print the folder of a stage's product.",
    "logs": "Print the log of a stage.",
    "push": "Publish a recipe or a product in a registry.",
    "pull": "Copy a recipe from a registry.",
    "report": "Write the report of a run, or compare runs.",
    "ui": "Follow all runs in a browser.",
    "adopt": "Accept products of an older environment.",
    "verify": "Check the store, or an artifact and its signature.",
    "sign": "Sign how a published product was made.",
    "reproduce": "Run a product again, and compare the bytes.",
    "gc": "Delete what no run refers to.",
    "reward": "Score rows with a reward graph.",
    "probe": "Sample completions of a training stage.",
    "image": "Inspect container images.",
    "doctor": "Check a cluster with small jobs.",
    "explain": "Explain a stage, key, method or diagnostic.",
    "schema": "Print the JSON Schema of recipes.",
}
# Commands that read files and print. They leave no thread, no process and no open file behind.
_WITHOUT_TEARDOWN = frozenset(
    ("validate", "fmt", "plan", "diff", "status", "runs", "path", "explain", "schema")
)


class LazyGroup(click.Group):
    """Imports the module of a command on first use."""

    resolved: str | None = None

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        return import_module(f"posttrain.cli.{cmd_name}").command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in _COMMANDS:
            from posttrain.spec.suggestions import hint

            ctx.fail(f"unknown command `{args[0]}`; {hint(args[0], list(_COMMANDS), what='commands')[0]}")
        found = super().resolve_command(ctx, args)
        self.resolved = found[0]
        return found

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. Report an unexpected exception as a message without a traceback."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:
            if os.environ.get("RECIPE_TRACEBACK"):
                raise
            raise click.ClickException(_unexpected_error_text(error)) from None


def _unexpected_error_text(error: Exception) -> str:
    extension = sys.modules.get("posttrain.spec.extension")  # not imported by commands without a compiler
    if extension is not None and isinstance(error, extension.ExtensionError):
        return str(error)
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "the disk is full; free space and run again: finished steps are kept"
    if isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename else ""
        return f"operating system error: {error.strerror or error}{where}"
    kind = type(error).__name__
    hint = "RECIPE_TRACEBACK=1 prints the traceback"
    return f"internal error: {kind}: {error}; {hint}"


def run() -> None:
    """Run the command of this process, and exit.

    When it ends, the interpreter searches for garbage several times and destroys every object, which takes a
    quarter of the time of `recipe validate`. The memory of a process ends with it in any case.
    """
    try:
        main()
    except SystemExit as end:
        if main.resolved in _WITHOUT_TEARDOWN and isinstance(end.code, int) and _flush_output():
            os._exit(end.code)
        raise


def _flush_output() -> bool:
    """Write out what is printed. If that fails, the interpreter reports it at its exit."""
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except (AttributeError, OSError, ValueError):  # no stream, no reader, closed
        return False
    return True


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="recipe")
def main() -> None:
    """Compile and run recipes for post-training language models."""


if __name__ == "__main__":
    run()
