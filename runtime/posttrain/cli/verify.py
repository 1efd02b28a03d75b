"""`recipe verify`: compare the files of a home, or an artifact in a registry, with their checksums."""

import sys
from typing import TYPE_CHECKING, Unpack

import click

from posttrain.cli.home_option import home_option, resolve_home
from posttrain.cli.invalid_usage import EXIT_ERRORS, InvalidUsage
from posttrain.cli.trust_options import TrustOptions, read_trust, trust_options
from posttrain.runtime.store.home import Home

if TYPE_CHECKING:
    from posttrain.runtime.store.verify_findings import VerifyProgress
    from posttrain.runtime.store.verify_home import CheckedFinding

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
@click.argument("artifact", required=False, metavar="[oci://HOST/NAME]")
@home_option
@trust_options
@click.option(
    "--repair", "repair_damage", is_flag=True, help="Move damaged items aside; the next run recreates them."
)
def command(
    artifact: str | None,
    home: str | None,
    repair_damage: bool,
    **trust: Unpack[TrustOptions],
) -> None:
    """Check all products, runs and unfinished steps of a home against their checksums.

    With a reference: check that a trusted signer signed the artifact, that its files match their digests,
    and that its key follows from the published recipe and its lock. The plan is computed again; nothing runs.
    """
    if artifact is not None:
        from posttrain.cli.verify_artifact import verify_and_print

        if repair_damage:
            raise InvalidUsage("--repair is for a home; an artifact in a registry cannot be changed")
        verify_and_print(artifact, read_trust(trust))
        return
    _verify_home(resolve_home(home), repair_damage)


def _verify_home(home: Home, repair_damage: bool) -> None:
    from posttrain.runtime.store.verify_findings import VerifyProgress

    checked = VerifyProgress()
    found = _check(home, checked, repair_damage)
    for one in found:
        finding = one.finding
        name = finding.name if finding.kind == "run" else finding.name[:10]
        click.echo(f"{finding.step} ({name}): {finding.problem}")
        if one.repair:
            click.echo(f"  {one.repair}")
    left = sum(not one.is_repaired for one in found)
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


def _check(home: Home, checked: "VerifyProgress", repair_damage: bool) -> "list[CheckedFinding]":
    from posttrain.runtime.store.verify_home import check_home, total_bytes

    size = total_bytes(home)
    hidden = not sys.stderr.isatty() or size < 1 << 30  # a short check needs no progress bar
    with click.progressbar(length=max(size, 1), label="reading", file=sys.stderr, hidden=hidden) as bar:
        checked.advance = bar.update
        return check_home(home, checked, repair_damage=repair_damage)
