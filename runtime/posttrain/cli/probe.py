"""`recipe probe`: sample completions from the product or newest checkpoint of a training stage."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from posttrain.cli.compile import EXIT_ERRORS, InvalidUsage
from posttrain.cli.home_option import find_run, home_option, resolve_home
from posttrain.runtime.store.home import Home
from posttrain.spec.plan import Plan, Step

if TYPE_CHECKING:
    from posttrain.runtime.step_context import StepContext

_MAX_SAMPLE = 160  # characters shown of a sample


@click.command("probe")
@click.argument("stage", metavar="STAGE")
@home_option
@click.option(
    "--run", "name", metavar="NAME", help="The run whose name starts with NAME; default: the newest."
)
@click.option(
    "--rows",
    default=8,
    type=click.IntRange(1),
    help="The number of prompts from the data of the stage.",
)
@click.option("--samples", default=4, type=click.IntRange(1), help="The number of completions per prompt.")
@click.option("--temperature", type=click.FloatRange(0), help="Override the value of the stage.")
@click.option("--max-tokens", type=click.IntRange(1), help="Override the value of the stage.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON, with all completions.")
def command(
    stage: str,
    home: str | None,
    name: str | None,
    rows: int,
    samples: int,
    temperature: float | None,
    max_tokens: int | None,
    as_json: bool,
) -> None:
    """Sample completions from the training stage STAGE, finished or not, and warn about anomalies."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    from posttrain.runtime.errors import StepError
    from posttrain.runtime.store.runs import find_step_product, load_plan
    from posttrain.runtime.training.probe import ProbeOptions, probe

    where = resolve_home(home)
    folder = find_run(where, name)
    plan = load_plan(folder)
    if plan is None:
        raise InvalidUsage(f"the plan of the run {folder.name} cannot be read")
    step = _training_step(plan, stage, folder)
    options = ProbeOptions(rows=rows, samples=samples, temperature=temperature, max_tokens=max_tokens)
    product = find_step_product(where, folder, stage)
    with TemporaryDirectory() as scratch:
        try:
            context = _step_context(where, folder, step, Path(scratch))
            report = probe(context, product.files if product else None, options)
        except StepError as error:
            click.echo(f"error: {error}" + (f"\n  {error.advice}" if error.advice else ""), err=True)
            raise click.exceptions.Exit(EXIT_ERRORS) from None
    if as_json:
        click.echo(json.dumps(report, ensure_ascii=False, indent=1, default=str))
    else:
        _print_report(report)


def _training_step(plan: Plan, stage: str, run: Path) -> Step:
    from posttrain.spec.suggestions import hint

    known = [step.id for step in plan.steps if step.kind == "train"]
    if stage not in known:
        help, _ = hint(stage, known, what="training stages")
        raise InvalidUsage(f"the run {run.name} has no training stage `{stage}`; {help}")
    return plan.step(stage)


def _step_context(home: Home, run: Path, step: Step, scratch: Path) -> "StepContext":
    """The context in which the code of the stage runs, with a temporary output folder."""
    from posttrain.runtime.errors import StepError
    from posttrain.runtime.events import EventWriter
    from posttrain.runtime.step_context import StepContext
    from posttrain.runtime.store.journal import Journal
    from posttrain.runtime.store.runs import find_step_key, find_step_product

    inputs: dict[str, Path] = {}
    for role, source in step.inputs.items():
        product = find_step_product(home, run, source.step)
        if product is None:
            raise StepError(
                f"`{source.step}`, an input of `{step.id}`, has not finished", "wait until it ends"
            )
        inputs[role] = product.files
    journal = Journal(run / "journal.sqlite")
    folder = Path(str(journal.get("recipe", "."))).parent
    journal.close()
    return StepContext(
        step=step,
        inputs=inputs,
        files={role: folder / file.path for role, file in step.files.items()},
        out=scratch,
        work=home.workdir(find_step_key(run, step.id) or ""),
        events=EventWriter(scratch / "events.jsonl"),
    )


def _print_report(report: Mapping[str, Any]) -> None:
    from posttrain.cli.text_tables import print_table

    click.echo(
        f"{report['completions']} completions of {report['prompts']} prompts, from the {report['from']}:"
        f" {report['ended']:.0%} not truncated, {report['distinct']:.0%} distinct,"
        f" {report['tokens']:.1f} tokens"
    )
    for tag, share in report["tags"].items():
        click.echo(f"  {share:.0%} contain {tag}")
    if report["nodes"]:
        click.echo("")
        rows = [
            (name, *(_number_text(node[part]) for part in _NODE_COLUMNS))
            for name, node in report["nodes"].items()
        ]
        print_table(("node", *_NODE_COLUMNS), rows)
        click.echo(f"rewards vary in {report['varied']:.0%} of the prompts")
    for sample in report["samples"][:: max(1, len(report["samples"]) // 4)]:
        click.echo(f"\n> {_shorten(sample['prompt'])}\n  {_shorten(sample['completion'])}")
    for warning in report["warnings"]:
        click.secho(f"warning: {warning}", fg="yellow")


_NODE_COLUMNS = ("mean", "std", "std_within_prompt", "unscored")


def _number_text(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _shorten(text: Any) -> str:
    shown = " ".join((text if isinstance(text, str) else json.dumps(text)).split())
    return shown if len(shown) <= _MAX_SAMPLE else shown[: _MAX_SAMPLE - 3] + "..."
