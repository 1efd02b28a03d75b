"""`recipe image`: inspect the container images of a recipe."""

from pathlib import Path

import click

from posttrain.cli.compile import recipe_file, settings_option
from posttrain.cli.diagnostics_output import compile_or_exit
from posttrain.cli.invalid_usage import EXIT_ERRORS, InvalidUsage


@click.group("image")
def command() -> None:
    """Inspect container images."""


@command.command("check")
@click.argument("subject", metavar="IMAGE|PATH")
@settings_option
def check(subject: str, settings: tuple[str, ...], profiles: tuple[str, ...]) -> None:
    """Check that IMAGE, or every image of the recipe at PATH, contains the library versions that plans
    require."""
    from posttrain.runtime.errors import StepError

    images = _images(subject, settings, profiles)
    try:
        sound = [_check_image(image) for image in images]
    except StepError as error:
        click.echo(f"error: {error}\n  help: {error.advice}", err=True)
        raise click.exceptions.Exit(EXIT_ERRORS) from None
    if not all(sound):
        raise click.exceptions.Exit(EXIT_ERRORS)


def _images(subject: str, settings: tuple[str, ...], profiles: tuple[str, ...]) -> list[str]:
    """The images of a recipe if `subject` is a path, otherwise the image itself."""
    if not Path(subject).exists():
        return [subject]
    plan = compile_or_exit(recipe_file(subject), settings, profiles).plan
    assert plan is not None, "a recipe that compiles has a plan"
    images = list(dict.fromkeys(step.image for step in plan.steps if step.image))
    if not images:
        raise InvalidUsage(
            f"no stage of {subject} runs in a container; pass an image, or add a `container` to a stage"
        )
    return images


def _check_image(image: str) -> bool:
    from posttrain.cli.text_tables import print_table
    from posttrain.runtime.runners.image_check import image_versions, version_mismatches

    found = version_mismatches(image_versions(image, _print_pull_progress))
    if not found:
        click.echo(f"{image} contains the required library versions")
        return True
    click.echo(f"{image} does not contain the required library versions:")
    print_table(("distribution", "required", "installed"), found)
    return False


def _print_pull_progress(done: int, total: int) -> None:
    click.echo(f"\rpulling: {done} of {total} MB", nl=done == total, err=True)
