"""Runs a command on a pseudo-terminal of a given width."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Sequence
from pathlib import Path

_STYLES = re.compile(r"\x1b\[[0-9;]*m")


def run_on_terminal(command: Sequence[str | Path], width: int) -> tuple[str, str]:
    """The text on the terminal without styles, and the standard error."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        command,
        stdout=theirs,
        stderr=subprocess.PIPE,
        stdin=theirs,
        env={**environment, "TERM": "xterm"},
        cwd="/",
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    errors = process.communicate()[1].decode()
    assert process.returncode == 0, errors[-2000:]
    return _STYLES.sub("", shown.decode()).replace("\r\n", "\n"), errors
