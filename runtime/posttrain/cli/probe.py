"""`recipe probe`: what a training stage's model writes, by its product or its newest checkpoint."""

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

_MAX_SAMPLE = 160  # characters of a sample that are shown


@click.command("probe")
@click.argument("stage", metavar="STAGE")
@home_option
@click.option("--run", "name", metavar="NAME", help="A run by the beginning of its name; else the newest.")
@click.option("--rows", default=8, type=click.IntRange(1), help="Rows of the stage's data to answer.")
@click.option("--samples", default=4, type=click.IntRange(1), help="Completions for each row.")
@click.option("--temperature", type=click.FloatRange(0), help="Instead of the stage's own.")
@click.option("--max-tokens", type=click.IntRange(1), help="Instead of the stage's own.")
@click.option("--json", "as_json", is_flag=True, help="All of it as JSON, every completion too.")
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
    """Sample completions of the training stage STAGE, finished or not, and say what is striking."""
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
    wanted = ProbeOptions(rows=rows, samples=samples, temperature=temperature, max_tokens=max_tokens)
    product = find_step_product(where, folder, stage)
    with TemporaryDirectory() as scratch:
        try:
            context = _step_context(where, folder, step, Path(scratch))
            told = probe(context, product.files if product else None, wanted)
        except StepError as fault:
            click.echo(f"error: {fault}" + (f"\n  {fault.advice}" if fault.advice else ""), err=True)
            raise click.exceptions.Exit(EXIT_ERRORS) from None
    if as_json:
        click.echo(json.dumps(told, ensure_ascii=False, indent=1, default=str))
    else:
        _print_report(told)


def _training_step(plan: Plan, stage: str, run: Path) -> Step:
    from posttrain.compiler.diagnosis.suggest import hint

    known = [step.id for step in plan.steps if step.kind == "train"]
    if stage not in known:
        help, _ = hint(stage, known, what="training stages")
        raise InvalidUsage(f"the run {run.name} has no training stage `{stage}`; {help}")
    return plan.step(stage)


def _step_context(home: Home, run: Path, step: Step, scratch: Path) -> "StepContext":
    """What the stage's own code is given, but for a place to write to."""
    from posttrain.runtime.errors import StepError
    from posttrain.runtime.events import EventWriter
    from posttrain.runtime.step_context import StepContext
    from posttrain.runtime.store.journal import Journal
    from posttrain.runtime.store.runs import find_step_key, find_step_product

    inputs: dict[str, Path] = {}
    for role, given in step.inputs.items():
        product = find_step_product(home, run, given.step)
        if product is None:
            raise StepError(f"`{given.step}` has not finished, and `{step.id}` reads it", "wait for it")
        inputs[role] = product.files
    journal = Journal(run / "journal.sqlite")
    beside = Path(str(journal.get("recipe", "."))).parent
    journal.close()
    return StepContext(
        step=step,
        inputs=inputs,
        files={role: beside / file.path for role, file in step.files.items()},
        out=scratch,
        work=home.workdir(find_step_key(run, step.id) or ""),
        events=EventWriter(scratch / "events.jsonl"),
    )


def _print_report(told: Mapping[str, Any]) -> None:
    from posttrain.cli.text_tables import print_table

    click.echo(
        f"{told['completions']} completions of {told['prompts']} prompts, from the {told['from']}:"
        f" {told['ended']:.0%} ended by themselves, {told['distinct']:.0%} distinct,"
        f" {told['tokens']:.1f} tokens"
    )
    for tag, share in told["tags"].items():
        click.echo(f"  {share:.0%} hold {tag}")
    if told["nodes"]:
        click.echo("")
        rows = [
            (name, *(_number_text(node[part]) for part in _NODE_COLUMNS))
            for name, node in told["nodes"].items()
        ]
        print_table(("node", *_NODE_COLUMNS), rows)
        click.echo(f"rewards vary in {told['varied']:.0%} of the prompts")
    for sample in told["samples"][:: max(1, len(told["samples"]) // 4)]:
        click.echo(f"\n> {_shorten(sample['prompt'])}\n  {_shorten(sample['completion'])}")
    for warning in told["warnings"]:
        click.secho(f"warning: {warning}", fg="yellow")


_NODE_COLUMNS = ("mean", "spread", "within", "unscored")


def _number_text(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _shorten(text: Any) -> str:
    shown = " ".join((text if isinstance(text, str) else json.dumps(text)).split())
    return shown if len(shown) <= _MAX_SAMPLE else shown[: _MAX_SAMPLE - 3] + "..."
