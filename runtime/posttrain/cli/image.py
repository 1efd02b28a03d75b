"""`recipe image`: the images that steps run in."""

from pathlib import Path

import click

from posttrain.cli.compile import EXIT_ERRORS, InvalidUsage, recipe_file, settings_option
from posttrain.cli.diagnostics_output import compile_or_exit


@click.group("image")
def command() -> None:
    """Look at the images that steps run in."""


@command.command("check")
@click.argument("subject", metavar="IMAGE|PATH")
@settings_option
def check(subject: str, settings: tuple[str, ...], profiles: tuple[str, ...]) -> None:
    """Check that IMAGE, or every image that the recipe at PATH names, holds the stack that plans are
    made for."""
    from posttrain.runtime.errors import StepError

    images = _images(subject, settings, profiles)
    try:
        sound = [_check_image(image) for image in images]
    except StepError as fault:
        click.echo(f"error: {fault}\n  help: {fault.advice}", err=True)
        raise click.exceptions.Exit(EXIT_ERRORS) from None
    if not all(sound):
        raise click.exceptions.Exit(EXIT_ERRORS)


def _images(subject: str, settings: tuple[str, ...], profiles: tuple[str, ...]) -> list[str]:
    """The images meant: those of a recipe where there is such a path, else the one of this name."""
    if not Path(subject).exists():
        return [subject]
    plan = compile_or_exit(recipe_file(subject), settings, profiles).plan
    assert plan is not None, "a recipe that compiles has a plan"
    images = list(dict.fromkeys(step.image for step in plan.steps if step.image))
    if not images:
        raise InvalidUsage(
            f"no stage of {subject} runs in a container; name an image, or give it a `container`"
        )
    return images


def _check_image(image: str) -> bool:
    from posttrain.cli.text_tables import print_table
    from posttrain.runtime.runners.image_check import image_versions, version_mismatches

    found = version_mismatches(image_versions(image, _print_pull_progress))
    if not found:
        click.echo(f"{image} holds the stack that plans are made for")
        return True
    click.echo(f"{image} is not what plans are made for:")
    print_table(("distribution", "planned", "there"), found)
    return False


def _print_pull_progress(done: int, total: int) -> None:
    click.echo(f"\rpulling: {done} of {total} MB", nl=done == total, err=True)
