"""`recipe verify`: whether every product still is what it was."""

import sys
from typing import TYPE_CHECKING

import click

from posttrain.cli.homes import home_of, home_option
from posttrain.cli.loading import ERRORS
from posttrain.runtime.home import Home

if TYPE_CHECKING:
    from posttrain.runtime.verification import Finding


@click.command("verify")
@home_option
@click.option("--repair", "mend", is_flag=True, help="Set damaged products aside: the next run makes them.")
def command(home: str | None, mend: bool) -> None:
    """Read all products of a home and hold them to their digests."""
    from posttrain.runtime.report.figures import plural
    from posttrain.runtime.verification import repair

    where = home_of(home)
    count = plural(len(where.store.all_keys()), "product")
    found = _findings(where)
    left = 0
    for finding in found:
        click.echo(f"{finding.step} ({finding.key[:10]}): {finding.what}")
        mended = mend and repair(where, finding)
        left += not mended
        if mend:
            what = "set aside: the next run makes it again" if mended else "in use by a run: left alone"
            click.echo(f"  {what}")
    if not found:
        click.echo(f"{count}, all as they were made")
    elif left:
        click.echo(f"{left} of {count} damaged" + ("" if mend else "; --repair sets them aside"))
        raise click.exceptions.Exit(ERRORS)


def _findings(home: Home) -> "list[Finding]":
    from posttrain.runtime.verification import verify, volume

    total = sum(volume(home.store, key) for key in home.store.all_keys())
    hidden = not sys.stderr.isatty() or total < 1 << 30  # nobody needs a bar for what takes no time
    with click.progressbar(length=max(total, 1), label="reading", file=sys.stderr, hidden=hidden) as bar:
        return list(verify(home.store, bar.update))
