"""`recipe`: the commands, each loaded when it is called."""

from importlib import import_module

import click

from posttrain.spec.version import VERSION

# A command is a file of this package; the order is the order of the help page.
_COMMANDS = (
    "new",
    "validate",
    "fmt",
    "plan",
    "run",
    "status",
    "path",
    "logs",
    "report",
    "reward",
    "explain",
    "schema",
)


class Commands(click.Group):
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
            from posttrain.compiler.suggest import hint

            ctx.fail(f"there is no command `{args[0]}`; {hint(args[0], _COMMANDS, what='commands')[0]}")
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="recipe")
def main() -> None:
    """Compile and run recipes for post-training language models."""


if __name__ == "__main__":
    main()
