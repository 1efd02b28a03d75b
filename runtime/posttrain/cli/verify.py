"""`recipe verify`: whether all that a home holds still is what it was."""

import sys
from typing import TYPE_CHECKING

import click

from posttrain.cli.compile import EXIT_ERRORS
from posttrain.cli.home_option import home_option, resolve_home
from posttrain.runtime.store.home import Home

if TYPE_CHECKING:
    from posttrain.runtime.store.verify_findings import Finding, VerifyProgress

# What is counted in one word, in the order in which it is told.
_COUNT_LABELS = {
    "products": "product",
    "files": "file",
    "runs": "run",
    "rows of journals": "row",
    "steps cut off": "unfinished step",
    "checkpoints": "checkpoint",
    "receipts": "receipt",
}


@click.command("verify")
@home_option
@click.option(
    "--repair", "mend", is_flag=True, help="Set aside or take away what is damaged: the next run makes it."
)
def command(home: str | None, mend: bool) -> None:
    """Read all products, runs and unfinished steps of a home, and hold them to their digests and seals."""
    from posttrain.runtime.store.verify_findings import VerifyProgress
    from posttrain.runtime.store.verify_home import IN_USE, repair

    where = resolve_home(home)
    looked = VerifyProgress()
    found = _run_verification(where, looked)
    left = 0
    for finding in found:
        name = finding.name if finding.kind == "run" else finding.name[:10]
        click.echo(f"{finding.step} ({name}): {finding.problem}")
        if mend:
            said = repair(where, finding)
            click.echo(f"  {said}")
            left += finding.repair is None or said == IN_USE
        else:
            left += 1
    for note in sorted(name for name in looked.counts if name not in _COUNT_LABELS):
        click.echo(f"note: {looked.counts[note]} {note}")
    if not found:
        click.echo(f"{_counts_text(looked)}: all as they were made")
        return
    click.echo(
        f"looked at {_counts_text(looked)}; {left} damaged" + ("" if mend else "; --repair sets them aside")
    )
    if left:
        raise click.exceptions.Exit(EXIT_ERRORS)


def _counts_text(looked: "VerifyProgress") -> str:
    from posttrain.runtime.report.number_format import plural

    return ", ".join(
        plural(looked.counts[name], word) for name, word in _COUNT_LABELS.items() if looked.counts[name]
    ) or ("nothing is here")


def _run_verification(home: Home, looked: "VerifyProgress") -> "list[Finding]":
    from posttrain.runtime.store.verify_home import total_bytes, verify_home

    size = total_bytes(home)
    hidden = not sys.stderr.isatty() or size < 1 << 30  # nobody needs a bar for what takes no time
    with click.progressbar(length=max(size, 1), label="reading", file=sys.stderr, hidden=hidden) as bar:
        looked.advance = bar.update
        return list(verify_home(home, looked))
