"""Overwrites secrets in the records of a step, as a precaution against libraries that print them."""

import mmap
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from posttrain.runtime.environment_proxies import PROXIES
from posttrain.runtime.store.product_outline import STEP_FILE
from posttrain.spec.url_passwords import url_passwords

# A shorter value occurs in ordinary text.
MIN_LENGTH = 6


def secret_values(secrets: Iterable[str]) -> tuple[str, ...]:
    """The values that are long enough to be recognized, the longest first."""
    found = {value.strip() for value in secrets}
    return tuple(sorted((value for value in found if len(value) >= MIN_LENGTH), key=len, reverse=True))


def proxy_passwords(environment: Mapping[str, str]) -> list[str]:
    """The passwords of the proxies of an environment, which libraries print in error messages."""
    return [secret for name in PROXIES if name in environment for secret in url_passwords(environment[name])]


def mask_secrets(work: Path, secrets: Iterable[str]) -> None:
    """Mask the values and the passwords of proxies in the log, the events and the failure of a step."""
    values = [value.encode() for value in secret_values((*secrets, *proxy_passwords(os.environ)))]
    if not values:
        return
    records = [path for folder in ("record", "ranks") for path in (work / folder).rglob("*")]
    # The step is a part of the plan, which later steps read: it has names of secrets, but no values.
    logs_and_events = [path for path in records if path != work / "record" / STEP_FILE]
    for path in (*logs_and_events, work / "failure.json", *work.glob("scratch/failure-*.json")):
        if path.is_file() and not path.is_symlink() and path.stat().st_size:
            _mask_file(path, values)


def _mask_file(path: Path, values: list[bytes]) -> None:
    """Overwrite in place and with the same length: a process of the step may still have the file open."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as content:
        for value in values:
            while (place := content.find(value)) >= 0:
                content[place : place + len(value)] = b"*" * len(value)
