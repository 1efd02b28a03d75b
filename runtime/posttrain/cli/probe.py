"""`recipe probe`: sample completions from the product or newest checkpoint of a training stage."""

import json
import os
from collections.abc import Mapping
from typing import Any

import click

from posttrain.cli.home_option import find_run, home_option, resolve_home, unknown_names_as_usage_errors
from posttrain.cli.invalid_usage import EXIT_ERRORS

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
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    help="The output format; json has all completions.",
)
def command(
    stage: str,
    home: str | None,
    name: str | None,
    rows: int,
    samples: int,
    temperature: float | None,
    max_tokens: int | None,
    form: str,
) -> None:
    """Sample completions from the training stage STAGE, finished or not, and warn about anomalies."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    from posttrain.runtime.errors import StepError
    from posttrain.runtime.inspection.probe_stage import probe_stage
    from posttrain.runtime.training.probe import ProbeOptions

    where = resolve_home(home)
    options = ProbeOptions(rows=rows, samples=samples, temperature=temperature, max_tokens=max_tokens)
    try:
        with unknown_names_as_usage_errors():
            report = probe_stage(where, find_run(where, name), stage, options)
    except StepError as error:
        click.echo(f"error: {error}" + (f"\n  {error.advice}" if error.advice else ""), err=True)
        raise click.exceptions.Exit(EXIT_ERRORS) from None
    if form == "json":
        click.echo(json.dumps(report, ensure_ascii=False, indent=1, default=str))
    else:
        _print_report(report)


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
