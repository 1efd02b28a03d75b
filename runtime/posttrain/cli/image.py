"""`recipe image`: inspect the container images of a recipe."""

from collections.abc import Collection
from pathlib import Path
from typing import Unpack

import click

from posttrain.cli.compile import recipe_file, settings_option
from posttrain.cli.diagnostics_output import compile_or_exit
from posttrain.cli.invalid_usage import EXIT_ERRORS, InvalidUsage
from posttrain.cli.recipe_trust import RunTrust, require_trust, run_trust_options


@click.group("image")
def command() -> None:
    """Inspect container images."""


@command.command("check")
@click.argument("subject", metavar="IMAGE|PATH")
@settings_option
@run_trust_options
def check(
    subject: str, settings: tuple[str, ...], profiles: tuple[str, ...], **trust: Unpack[RunTrust]
) -> None:
    """Check that IMAGE, or every image of the recipe at PATH, contains the library versions that plans
    require. The images are started."""
    from posttrain.runtime.errors import StepError

    images = _images(subject, settings, profiles, trust)
    try:
        sound = [_check_image(image, kinds) for image, kinds in images.items()]
    except StepError as error:
        click.echo(f"error: {error}\n  help: {error.advice}", err=True)
        raise click.exceptions.Exit(EXIT_ERRORS) from None
    if not all(sound):
        raise click.exceptions.Exit(EXIT_ERRORS)


def _images(
    subject: str, settings: tuple[str, ...], profiles: tuple[str, ...], trust: RunTrust
) -> dict[str, set[str]]:
    """The images of a recipe if `subject` is a path, otherwise the image itself; with the kinds of steps that
    each runs."""
    if "://" not in subject and not Path(subject).exists():
        return {subject: set()}
    file = recipe_file(subject)
    outcome = compile_or_exit(file, settings, profiles)
    plan = outcome.plan
    assert plan is not None, "a recipe that compiles has a plan"
    images: dict[str, set[str]] = {}
    for step in plan.steps:
        if step.image:
            images.setdefault(step.image, set()).add(step.kind)
    if not images:
        raise InvalidUsage(
            f"no stage of {subject} runs in a container; pass an image, or add a `container` to a stage"
        )
    require_trust(subject, file, outcome.artifacts, [f"starts the container {one}" for one in images], trust)
    return images


def _check_image(image: str, kinds: Collection[str]) -> bool:
    from posttrain.cli.text_tables import print_table
    from posttrain.runtime.runners.image_check import image_versions, version_mismatches

    found = version_mismatches(image_versions(image, _print_pull_progress), kinds)
    if not found:
        click.echo(f"{image} contains the required library versions")
        return True
    click.echo(f"{image} does not contain the required library versions:")
    print_table(("distribution", "required", "installed"), found)
    return False


def _print_pull_progress(done: int, total: int) -> None:
    click.echo(f"\rpulling: {done} of {total} MB", nl=done == total, err=True)
