"""The output of `recipe reproduce`: each step, and the first that differs."""

from collections.abc import Sequence

import click

from posttrain.runtime.provenance.reproduction import (
    StepComparison,
    describe_comparison,
    first_difference,
)
from posttrain.runtime.report.number_format import plural


def print_reproduction(compared: Sequence[StepComparison]) -> bool:
    """Print the comparison, and return whether all recorded products have equal bytes."""
    width = max(len(one.id) for one in compared)
    for one in compared:
        why = "; ".join(one.reasons) if one.outcome != "different" else describe_comparison(one)
        click.echo(f"{one.id:<{width}}  {one.outcome}" + (f"  ({why})" if why else ""))
    first = first_difference(compared)
    if first is not None:
        click.echo(f"`{first.id}` is the first step that differs: {describe_comparison(first)}")
        return False
    missing = [one.id for one in compared if one.outcome == "not run"]
    if missing:
        click.echo(f"not reproduced: {', '.join(missing)} did not finish")
        return False
    equal = sum(one.outcome == "equal" for one in compared)
    changed = sorted({reason for one in compared for reason in one.reasons})
    if changed:
        # Equal bytes say nothing about the recorded launch, stack or hardware: those did not run here.
        click.echo(f"equal bytes in {plural(equal, 'step')}, although this differs: {'; '.join(changed)}")
    else:
        same = "with the same launch, stack and hardware"
        click.echo(f"reproduced: equal bytes in {plural(equal, 'step')}, {same}")
    return True
