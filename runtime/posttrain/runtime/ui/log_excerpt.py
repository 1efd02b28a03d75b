"""The log of a step in pieces: the end of it first, then what was appended since."""

import re
from pathlib import Path
from typing import Any

from posttrain.runtime.inspection.log_filter import LogFilter
from posttrain.runtime.inspection.run_lookup import UnknownName
from posttrain.runtime.inspection.step_log import NoLog, find_log
from posttrain.runtime.report.redaction import redact
from posttrain.runtime.store.home import Home

_END_BYTES = 64 * 1024
_PIECE_BYTES = 256 * 1024
_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-Z\\^_])")


def read_log_excerpt(
    home: Home, run: Path, step: str, start: int, secrets: tuple[str, ...]
) -> dict[str, Any]:
    """The complete lines from an offset; a negative one means the end of the log.

    `next` is the offset after these lines, `size` that of the file. `text` has no progress bars, no escape
    sequences of terminals and no secrets.
    """
    try:
        found = find_log(home, run, step)
    except UnknownName as error:
        return {"text": "", "next": 0, "size": 0, "problem": str(error)}
    if isinstance(found, NoLog):
        problem = ". ".join(filter(None, (found.reason, found.advice)))
        return {"text": "", "next": 0, "size": 0, "problem": problem}
    try:
        with found.log.open("rb") as file:
            size = file.seek(0, 2)
            if start < 0 or start > size:
                start, is_end = max(0, size - _END_BYTES), True
            else:
                is_end = False
            file.seek(start)
            data = file.read(_PIECE_BYTES)
    except OSError as error:
        return {"text": "", "next": 0, "size": 0, "problem": f"the log is not readable: {error.strerror}"}
    if is_end and start:  # the first line is a part of one
        data, start = _after_line_feed(data, start)
    is_last = start + len(data) == size and found.has_ended()
    # A piece ends with a line: a secret, or a character, that two pieces share would not be found.
    complete = len(data) if is_last else data.rfind(b"\n") + 1
    if not complete and len(data) == _PIECE_BYTES:  # a line of this length
        complete = len(data)
    text = readable_text(data[:complete], secrets)
    return {"text": text, "next": start + complete, "size": size, "problem": ""}


def _after_line_feed(data: bytes, start: int) -> tuple[bytes, int]:
    skipped = data.find(b"\n") + 1
    return data[skipped:], start + skipped


def readable_text(data: bytes, secrets: tuple[str, ...]) -> str:
    found = LogFilter()
    text = found.feed(data.decode("utf-8", "replace")) + found.end()
    return redact(_ESCAPES.sub("", text), secrets)
