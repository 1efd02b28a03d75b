"""Code of others runs only with --trust, or if a trusted signer has signed the recipe."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from posttrain.cli.invalid_usage import EXIT_ERRORS
from posttrain.cli.recipe_origin import Origin, find_origin, origin_files
from posttrain.cli.trust_options import TrustOptions, names_signers, read_trust, trust_options


class RunTrust(TrustOptions):
    """The values of the options, as click passes them."""

    trust: bool


def run_trust_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--trust, and the options that name signers; the command takes them as a `RunTrust`."""
    trust = click.option(
        "--trust",
        is_flag=True,
        help="Run the programs and the code of a recipe from a registry, after you have read them. A trusted"
        " signature is enough, too.",
    )
    return trust(trust_options(command))


def require_trust(
    address: str, file: Path, artifacts: Sequence[str], actions: Sequence[str], options: RunTrust
) -> None:
    """Exit if the recipe is of someone else, would do these actions, and neither --trust nor a trusted
    signature allows them. `artifacts` are those that it extends."""
    origin = find_origin(file, artifacts, address)
    if origin is None:
        return
    if options["trust"]:
        print_actions(origin.text, actions)
        for path in origin_files(file):
            path.unlink(missing_ok=True)
        return
    if not actions:
        return
    signers, problem = _find_signers(origin, file, options)
    by = f", signed by {', '.join(signers)}" if signers else ""
    print_actions(f"{origin.text}{by}", actions)
    if signers:
        return
    if problem:
        click.echo(f"  it has no trusted signature: {problem}", err=True)
    click.echo("  help: read it, and run it with --trust if you trust its publisher", err=True)
    raise click.exceptions.Exit(EXIT_ERRORS)


def print_actions(origin: str, actions: Sequence[str]) -> None:
    """Show what a recipe of someone else does here, if it does anything."""
    if not actions:
        return
    click.echo(f"the recipe comes from {origin}:", err=True)
    for line in actions:
        click.echo(f"  {line}", err=True)


def _find_signers(origin: Origin, file: Path, options: TrustOptions) -> tuple[list[str], str]:
    """The trusted signers of all artifacts of a recipe; or none, and why."""
    from posttrain.runtime.artifacts.recipe_fetch import changed_file
    from posttrain.runtime.errors import StepError
    from posttrain.runtime.provenance.recipe_signer import find_recipe_signer

    if not names_signers(options):
        return [], ""
    if not origin.artifacts:
        return [], "only recipes in a registry can have one"
    trusted = read_trust(options)
    try:
        signers = [find_recipe_signer(one, trusted) for one in origin.artifacts]
        change = None if origin.pulled is None else changed_file(origin.pulled, origin.artifacts[0], file)
    except StepError as error:
        return [], f"{error}; {error.advice}" if error.advice else str(error)
    if change is not None:
        return [], f"{change} in {origin.pulled} is not as published"
    return list(dict.fromkeys(signers)), ""
