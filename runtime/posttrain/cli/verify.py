"""`recipe verify`: compare the files of a home with their checksums."""

import sys
from typing import TYPE_CHECKING

import click

from posttrain.cli.compile import EXIT_ERRORS
from posttrain.cli.home_option import home_option, resolve_home
from posttrain.runtime.store.home import Home

if TYPE_CHECKING:
    from posttrain.runtime.store.verify_findings import Finding, VerifyProgress

# The labels of the counts, in the order of the summary.
_COUNT_LABELS = {
    "products": "product",
    "files": "file",
    "runs": "run",
    "journal rows": "row",
    "unfinished steps": "unfinished step",
    "checkpoints": "checkpoint",
    "receipts": "receipt",
}


@click.command("verify")
@home_option
@click.option(
    "--repair", "repair_damage", is_flag=True, help="Move damaged items aside; the next run recreates them."
)
def command(home: str | None, repair_damage: bool) -> None:
    """Check all products, runs and unfinished steps of a home against their checksums."""
    from posttrain.runtime.store.verify_findings import VerifyProgress
    from posttrain.runtime.store.verify_home import IN_USE, repair

    where = resolve_home(home)
    checked = VerifyProgress()
    found = _run_verification(where, checked)
    left = 0
    for finding in found:
        name = finding.name if finding.kind == "run" else finding.name[:10]
        click.echo(f"{finding.step} ({name}): {finding.problem}")
        if repair_damage:
            outcome = repair(where, finding)
            click.echo(f"  {outcome}")
            left += finding.repair is None or outcome == IN_USE
        else:
            left += 1
    for note in sorted(name for name in checked.counts if name not in _COUNT_LABELS):
        click.echo(f"note: {checked.counts[note]} {note}")
    if not found:
        click.echo(f"{_counts_text(checked)}: no damage found")
        return
    click.echo(
        f"checked {_counts_text(checked)}; {left} damaged"
        + ("" if repair_damage else "; move them aside with --repair")
    )
    if left:
        raise click.exceptions.Exit(EXIT_ERRORS)


def _counts_text(checked: "VerifyProgress") -> str:
    from posttrain.runtime.report.number_format import plural

    return ", ".join(
        plural(checked.counts[name], word) for name, word in _COUNT_LABELS.items() if checked.counts[name]
    ) or ("nothing to check")


def _run_verification(home: Home, checked: "VerifyProgress") -> "list[Finding]":
    from posttrain.runtime.store.verify_home import total_bytes, verify_home

    size = total_bytes(home)
    hidden = not sys.stderr.isatty() or size < 1 << 30  # a short check needs no progress bar
    with click.progressbar(length=max(size, 1), label="reading", file=sys.stderr, hidden=hidden) as bar:
        checked.advance = bar.update
        return list(verify_home(home, checked))
