"""`recipe new`: create a recipe from a starter, with comments."""

import re
from pathlib import Path

import click

from posttrain.cli.invalid_usage import EXIT_USAGE, InvalidUsage

_STARTERS = Path(__file__).parent / "starters"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}\Z")
_NAME_LINE = re.compile(r"^name: .*$", re.MULTILINE)
_DESCRIPTION = re.compile(r"^description: (.*)$", re.MULTILINE)


@click.command("new")
@click.argument("kind", metavar="KIND", required=False)
@click.argument("path", default=".", metavar="[PATH]")
@click.option("--list", "listed", is_flag=True, help="List the kinds and exit.")
def command(kind: str | None, path: str, listed: bool) -> None:
    """Create a commented recipe of KIND in the folder PATH. Existing files are not overwritten."""
    from posttrain.spec.suggestions import hint

    kinds = {folder.name: folder for folder in sorted(_STARTERS.iterdir()) if folder.is_dir()}
    if listed or kind is None:
        _print_kinds(kinds)
        if not listed:
            raise click.exceptions.Exit(EXIT_USAGE)
        return
    if kind not in kinds:
        raise InvalidUsage(f"unknown kind `{kind}`; {hint(kind, kinds, what='kinds')[0]}")
    _copy_starter(kinds[kind], Path(path))


def _print_kinds(kinds: dict[str, Path]) -> None:
    width = max(map(len, kinds))
    for name, folder in kinds.items():
        description = _DESCRIPTION.search((folder / "recipe.yaml").read_text(encoding="utf-8"))
        assert description is not None, f"the starter {name} has no description"
        click.echo(f"{name.ljust(width)}  {description[1]}")


def _copy_starter(starter: Path, folder: Path) -> None:
    from posttrain.runtime.atomic_io import write_text

    files = sorted(file for file in starter.iterdir() if file.is_file())
    taken = [folder / file.name for file in files if (folder / file.name).exists()]
    if folder.exists() and not folder.is_dir():
        raise InvalidUsage(f"{folder} is a file; pass a folder")
    if taken:
        raise InvalidUsage(f"{taken[0]} already exists; pass another folder")
    try:
        for file in files:
            text = file.read_text(encoding="utf-8")
            text = _with_folder_name(text, folder) if file.name == "recipe.yaml" else text
            write_text(folder / file.name, text)
            click.echo(folder / file.name)
    except OSError as error:
        raise InvalidUsage(f"{folder} cannot be written: {error.strerror}") from None
    click.echo(f"next: recipe plan {folder}, then recipe run {folder}")


def _with_folder_name(text: str, folder: Path) -> str:
    """Name the recipe after its folder, if that is a valid name."""
    name = folder.resolve().name
    return _NAME_LINE.sub(f"name: {name}", text, count=1) if _NAME.match(name) else text
