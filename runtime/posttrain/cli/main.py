"""`recipe`: the commands, each loaded when it is called."""

import errno
import gc
import os
from importlib import import_module
from typing import Any

import click

from posttrain.spec.version import VERSION

# What a command builds lives about as long as the command: to look for rubbish early finds none.
gc.set_threshold(100_000)
# A command is a file of this package; the order is the order of the help page.
_COMMANDS = (
    "new",
    "validate",
    "fmt",
    "plan",
    "diff",
    "lock",
    "run",
    "status",
    "runs",
    "path",
    "logs",
    "report",
    "adopt",
    "verify",
    "gc",
    "reward",
    "probe",
    "image",
    "explain",
    "schema",
)


class LazyGroup(click.Group):
    """Finds a command's module by its name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        return import_module(f"posttrain.cli.{cmd_name}").command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in _COMMANDS:
            from posttrain.compiler.diagnosis.suggest import hint

            ctx.fail(f"there is no command `{args[0]}`; {hint(args[0], _COMMANDS, what='commands')[0]}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Carry a command out. What nobody foresaw ends in a sentence, not in a traceback."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:
            if os.environ.get("RECIPE_TRACEBACK"):
                raise
            raise click.ClickException(_internal_error_text(error)) from None


def _internal_error_text(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "the disk is full; free space and run again: what was finished is kept"
    if isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename else ""
        return f"the system refused: {error.strerror or error}{where}"
    kind = type(error).__name__
    hint = "RECIPE_TRACEBACK=1 shows where"
    return f"this should not happen, and is a mistake of ours: {kind}: {error}; {hint}"


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="recipe")
def main() -> None:
    """Compile and run recipes for post-training language models."""


if __name__ == "__main__":
    main()
