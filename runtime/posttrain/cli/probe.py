"""`recipe probe`: what a training stage's model writes, by its product or its newest checkpoint."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from posttrain.cli.homes import chosen_run, home_of, home_option
from posttrain.cli.loading import ERRORS, Misuse
from posttrain.runtime.keeping.home import Home
from posttrain.spec.plan import Plan, Step

if TYPE_CHECKING:
    from posttrain.runtime.context import Context

_WIDEST = 160  # characters of a sample that are shown


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
    from posttrain.runtime.faults import StepFault
    from posttrain.runtime.keeping.runs import plan_of, product_of
    from posttrain.runtime.training.probing import Wanted, probe

    where = home_of(home)
    folder = chosen_run(where, name)
    plan = plan_of(folder)
    if plan is None:
        raise Misuse(f"the plan of the run {folder.name} cannot be read")
    step = _step(plan, stage, folder)
    wanted = Wanted(rows=rows, samples=samples, temperature=temperature, max_tokens=max_tokens)
    product = product_of(where, folder, stage)
    with TemporaryDirectory() as scratch:
        try:
            context = _context(where, folder, step, Path(scratch))
            told = probe(context, product.files if product else None, wanted)
        except StepFault as fault:
            click.echo(f"error: {fault}" + (f"\n  {fault.advice}" if fault.advice else ""), err=True)
            raise click.exceptions.Exit(ERRORS) from None
    if as_json:
        click.echo(json.dumps(told, ensure_ascii=False, indent=1, default=str))
    else:
        _print(told)


def _step(plan: Plan, stage: str, run: Path) -> Step:
    from posttrain.compiler.diagnosis.suggest import hint

    known = [step.id for step in plan.steps if step.kind == "train"]
    if stage not in known:
        help, _ = hint(stage, known, what="training stages")
        raise Misuse(f"the run {run.name} has no training stage `{stage}`; {help}")
    return plan.step(stage)


def _context(home: Home, run: Path, step: Step, scratch: Path) -> "Context":
    """What the stage's own code is given, but for a place to write to."""
    from posttrain.runtime.context import Context
    from posttrain.runtime.events import EventWriter
    from posttrain.runtime.faults import StepFault
    from posttrain.runtime.keeping.journal import Journal
    from posttrain.runtime.keeping.runs import key_of, product_of

    inputs: dict[str, Path] = {}
    for role, given in step.inputs.items():
        product = product_of(home, run, given.step)
        if product is None:
            raise StepFault(f"`{given.step}` has not finished, and `{step.id}` reads it", "wait for it")
        inputs[role] = product.files
    journal = Journal(run / "journal.sqlite")
    beside = Path(str(journal.get("recipe", "."))).parent
    journal.close()
    return Context(
        step=step,
        inputs=inputs,
        files={role: beside / file.path for role, file in step.files.items()},
        out=scratch,
        work=home.work(key_of(run, step.id) or ""),
        events=EventWriter(scratch / "events.jsonl"),
    )


def _print(told: Mapping[str, Any]) -> None:
    from posttrain.cli.tables import table

    click.echo(
        f"{told['completions']} completions of {told['prompts']} prompts, from the {told['from']}:"
        f" {told['ended']:.0%} ended by themselves, {told['distinct']:.0%} distinct,"
        f" {told['tokens']:.1f} tokens"
    )
    for tag, share in told["tags"].items():
        click.echo(f"  {share:.0%} hold {tag}")
    if told["nodes"]:
        click.echo("")
        rows = [(name, *(_number(node[part]) for part in _PARTS)) for name, node in told["nodes"].items()]
        table(("node", *_PARTS), rows)
        click.echo(f"rewards vary in {told['varied']:.0%} of the prompts")
    for sample in told["samples"][:: max(1, len(told["samples"]) // 4)]:
        click.echo(f"\n> {_short(sample['prompt'])}\n  {_short(sample['completion'])}")
    for warning in told["warnings"]:
        click.secho(f"warning: {warning}", fg="yellow")


_PARTS = ("mean", "spread", "within", "unscored")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _short(text: Any) -> str:
    shown = " ".join((text if isinstance(text, str) else json.dumps(text)).split())
    return shown if len(shown) <= _WIDEST else shown[: _WIDEST - 3] + "..."
