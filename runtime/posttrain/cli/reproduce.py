"""`recipe reproduce`: run a published product or an earlier run again, and compare the bytes."""

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from posttrain.cli.home_option import find_run, resolve_home, unknown_names_as_usage_errors
from posttrain.cli.invalid_usage import EXIT_ERRORS, InvalidUsage
from posttrain.cli.recipe_trust import print_actions
from posttrain.cli.remote_recipe import registry_errors
from posttrain.cli.trust_options import TrustOptions, read_trust, trust_options
from posttrain.runtime.store.home import Home
from posttrain.spec.record import record

# Models and datasets run with the stages that read them.
DECLARED_KINDS = ("model", "data")

if TYPE_CHECKING:
    from collections.abc import Mapping

    from posttrain.runtime.provenance.step_provenance import StepRecord
    from posttrain.runtime.provenance.verify_artifact import Trust
    from posttrain.spec.plan import Plan


@record(kw_only=True)
class Original:
    """What is repeated: a plan, the folder with its files, and the steps that were recorded."""

    plan: "Plan"
    recipe: Path
    steps: "Mapping[str, StepRecord]"


@click.command("reproduce")
@click.argument("subject", metavar="oci://HOST/NAME|RUN")
@click.option(
    "--from-home",
    metavar="DIR",
    help="The home of RUN; default: $RECIPE_HOME, or .recipe.",
)
@click.option(
    "--home",
    metavar="DIR",
    help="A new folder for the repeated run; default: a temporary one, deleted if all products are equal.",
)
@trust_options
def command(
    subject: str,
    from_home: str | None,
    home: str | None,
    **trust: Unpack[TrustOptions],
) -> None:
    """Run the recipe of a published product again, or the run of this machine whose name starts with RUN, in
    a new home. Compare the bytes of each step, and name the first step that differs, and why.

    The steps run with the libraries of this machine. The statement of a published product must have a trusted
    signature, which covers the programs and the code of the recipe.
    """
    if home is not None and Path(home).is_dir() and any(Path(home).iterdir()):
        raise InvalidUsage(f"--home {home} is not empty: its products would be reused; name a new folder")
    with registry_errors():
        if "://" in subject:
            original = _published(subject, read_trust(trust))
        else:
            original = _recorded(resolve_home(from_home), subject)
    target = Home(Path(tempfile.mkdtemp(prefix="recipe-reproduce-"))) if home is None else resolve_home(home)
    equal = _repeat(original, target)
    if equal and home is None:
        shutil.rmtree(target.root)
    elif home is None:
        click.echo(f"the repeated run is in {target.root}")
    if not equal:
        raise click.exceptions.Exit(EXIT_ERRORS)


def _published(address: str, trusted: "Trust") -> Original:
    from posttrain.cli.verify_artifact import recompute_plan
    from posttrain.runtime.artifacts.foreign_code import foreign_actions
    from posttrain.runtime.provenance.published_steps import published_steps
    from posttrain.runtime.provenance.verify_artifact import check_signed_files, verify_signer
    from posttrain.runtime.registry.oci_reference import parse_reference

    verified = verify_signer(parse_reference(address), trusted)
    click.echo(f"signer: {verified.signer}")
    check_signed_files(verified)
    steps = published_steps(verified.statement, verified.files)
    recipe = recompute_plan(verified)
    print_actions(f"{verified.reference}, signed by {verified.signer}", foreign_actions(recipe.plan))
    return Original(plan=recipe.plan, recipe=recipe.file, steps=steps)


def _recorded(home: Home, name: str) -> Original:
    from posttrain.runtime.inspection.recorded_run import read_recorded_run

    with unknown_names_as_usage_errors():
        is_folder = (Path(name) / "plan.json").is_file()
        run = Path(name).resolve() if is_folder else find_run(home, name)
        found = read_recorded_run(Home(run.parents[1]), run)
    if not any(step.kind not in DECLARED_KINDS for step in found.plan.steps if step.id in found.steps):
        raise InvalidUsage(f"the run {run.name} has no finished stage to reproduce")
    return Original(plan=found.plan, recipe=found.recipe, steps=found.steps)


def _repeat(original: Original, home: Home) -> bool:
    """Run the steps in a new home, print the comparison, and return whether all recorded bytes are equal."""
    from posttrain.cli.reproduction_report import print_reproduction
    from posttrain.cli.run import run_and_print
    from posttrain.runtime.execution.run_plan import RunOptions
    from posttrain.runtime.execution.selection import SelectionOptions
    from posttrain.runtime.execution.stop_request import StopRequest
    from posttrain.runtime.inspection.recorded_run import read_recorded_run
    from posttrain.runtime.installed_stack import installed_stack
    from posttrain.runtime.provenance.reproduction import compare_steps
    from posttrain.runtime.provenance.retarget_plan import retarget_plan

    stack = installed_stack()
    steps = [step for step in original.plan.steps if step.id in original.steps]
    stages = [step.id for step in steps if step.kind not in DECLARED_KINDS]
    options = RunOptions(
        recipe=original.recipe,
        selection=SelectionOptions(until_stages=stages),
        track=False,
        report=False,
    )
    status = run_and_print(retarget_plan(original.plan, stack), home, options, StopRequest())
    if not home.runs.is_dir():
        raise click.exceptions.Exit(status)  # the run did not start
    with unknown_names_as_usage_errors():
        repeated = read_recorded_run(home, find_run(home, None)).steps
    return print_reproduction(compare_steps(steps, original.steps, repeated, stack))
