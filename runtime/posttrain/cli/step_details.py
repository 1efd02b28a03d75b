"""Prints all details of one step: placement with reasons, memory, time, inputs, the parts of its key."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from posttrain.cli.estimate_text import cost_lines, format_dollars
from posttrain.runtime.execution.dry_run import StepForecast
from posttrain.runtime.report.number_format import format_duration

if TYPE_CHECKING:
    from posttrain.spec.plan import Launch, Step


_WIDTH = 10
_MAX_VALUE = 80
_SHORT_KEY = 12  # characters, as many as other commands show
_DIGEST = re.compile(r"\b[0-9a-f]{64}\b")


def print_step_details(step: "Step", prospect: StepForecast, *, verbose: bool = False) -> None:
    """Print the details of a step; `verbose` adds the digests of the key and of its parts."""
    reason = f": {prospect.reason}" if prospect.reason else ""
    click.secho(f"{step.id}  {step.kind}  {prospect.state}{reason}", bold=True)
    for name, lines in _sections(step, verbose):
        for index, line in enumerate(lines):
            click.echo(f"  {name if index == 0 else '':<{_WIDTH}} {line}".rstrip())


def _sections(step: "Step", verbose: bool) -> Iterator[tuple[str, list[str]]]:
    estimate = step.estimate or {}
    yield "defined", [f"{step.place.file}:{step.place.line}:{step.place.column}"]
    yield "placement", [_placement(step), *estimate.get("why", [])]
    if "trained_parameters" in step.expect:
        yield "trains", [f"{step.expect['trained_parameters']:,} parameters"]
    if "memory_gb" in estimate:
        yield "memory", list(_memory(estimate, step.resources.gpus > 0))
    if estimate.get("seconds") is not None:
        yield "time", list(_time(estimate))
    elif estimate.get("unknown_reason"):
        yield "time", [f"unknown: {estimate['unknown_reason']}"]
    if estimate.get("dollars") is not None or estimate.get("api"):
        yield "cost", list(cost_lines(estimate))
    if estimate.get("assumes"):
        yield "assumes", list(estimate["assumes"])
    if step.inputs:
        yield "inputs", [f"{role}: {source.reference}" for role, source in step.inputs.items()]
    if step.gates:
        yield "gates", list(step.gates)
    yield "key", [step.key if verbose else step.key[:_SHORT_KEY], *_key_lines(step, verbose)]


def _placement(step: "Step") -> str:
    launch, gpus = step.launch, step.resources.gpus
    processes = f"{launch.processes} process{'es' if launch.processes > 1 else ''}"
    strategy = f" ({launch.strategy})" if launch.processes > 1 else ""
    where = f"{gpus} GPU{'s' if gpus > 1 else ''}" if gpus else f"{step.resources.cpus} core(s)"
    where += f" with {step.resources.memory_gb:g} GB of memory" if step.resources.memory_gb else ""
    where += f" of {describe_nodes(launch)}" if launch.all_nodes > 1 else ""
    engine = f", generation with {launch.engine}" if launch.engine else ""
    image = f", in {step.image}" if step.image else ""
    return f"{processes}{strategy} on {where}{engine}{image}"


def describe_nodes(launch: "Launch") -> str:
    """The nodes of a step, and what runs on each of them."""
    each = launch.processes // launch.nodes
    processes = f"{each} process{'es' if each > 1 else ''} on each"
    if not launch.server_nodes:
        return f"{launch.nodes} nodes, {processes}"
    training = f"{launch.nodes} that train{'s' if launch.nodes == 1 else ''}, {processes}"
    return f"{launch.all_nodes} nodes ({training}; {launch.server_nodes} with the vLLM server)"


def _memory(estimate: Mapping[str, Any], gpu: bool) -> Iterator[str]:
    limit = f" of {estimate['limit_gb']:.1f} GB" if estimate.get("limit_gb") else ""
    yield f"{estimate['memory_gb']:.1f} GB{limit} {'on each GPU' if gpu else ''}".rstrip()
    yield f"peak in: {estimate['peak_phase']}"
    yield from (f"{t['gb']:8.2f}  {t['name']}: {t['why']}" for t in estimate["terms"] if t["gb"] >= 0.01)


def _time(estimate: Mapping[str, Any]) -> Iterator[str]:
    least = "at least " if estimate.get("unknown_reason") else ""
    yield f"{least}{format_duration(estimate['seconds_min'])} to {format_duration(estimate['seconds_max'])}"
    for part in estimate.get("parts", ()):
        yield (
            f"{part['name']}: {format_duration(part['seconds_min'])} to"
            f" {format_duration(part['seconds_max'])}, {format_dollars(part['dollars'])} ({part['why']})"
        )
    if estimate.get("unknown_reason"):
        yield f"not included: {estimate['unknown_reason']}"


def _key_lines(step: "Step", verbose: bool) -> Iterator[str]:
    """The parts of the key, with complete digests if `verbose`; long values are shortened."""
    for name, digest in step.key_parts.items():
        value = json.dumps(step.key_values.get(name), ensure_ascii=False)
        if not verbose:  # the key of an input would fill the line
            value = _DIGEST.sub(lambda found: found[0][:_SHORT_KEY], value)
        short = value if len(value) <= _MAX_VALUE else value[: _MAX_VALUE - 3] + "..."
        yield f"{digest[:10]}  {name} = {short}" if verbose else f"{name} = {short}"
