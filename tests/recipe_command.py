"""Runs the `recipe` command as a user does, and inspects the resulting home."""

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryFile

from tests.preloaded_client import PreloadedProcess, can_preload

ROOT = Path(__file__).parent.parent
TINY_RECIPE = ROOT / "tests" / "recipes" / "tiny"
RECIPE_COMMAND = [sys.executable, "-m", "posttrain.cli.main"]


Process = subprocess.Popen[bytes] | PreloadedProcess
_TRAINS = ("run", "probe")


def run_command(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command and wait for it."""
    command = [*RECIPE_COMMAND, *map(str, arguments)]
    if arguments[0] not in _TRAINS or not can_preload():
        return subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=cwd, stdin=subprocess.DEVNULL
        )
    with TemporaryFile() as output, TemporaryFile() as errors, Path(os.devnull).open("rb") as nothing:
        process = PreloadedProcess(*command[2:], stdin=nothing, stdout=output, stderr=errors, cwd=cwd)
        status = process.wait()
        texts = [os.pread(file.fileno(), file.seek(0, os.SEEK_END), 0).decode() for file in (output, errors)]
    return subprocess.CompletedProcess(command, status, *texts)


def start_command(*arguments: str | Path, log: Path, cwd: Path | None = None) -> Process:
    """Start the command without waiting for it."""
    command = [*RECIPE_COMMAND, *map(str, arguments)]
    with log.open("ab") as output, Path(os.devnull).open("rb") as nothing:
        if arguments[0] in _TRAINS and can_preload():
            return PreloadedProcess(*command[2:], stdin=nothing, stdout=output, stderr=output, cwd=cwd)
        return subprocess.Popen(command, stdin=nothing, stdout=output, stderr=output, cwd=cwd)


_HANGS_AFTER_SECONDS = 1200


def wait_until(
    condition: Callable[[], bool],
    what: str,
    client: Process | None = None,
    seconds: float | None = None,
) -> None:
    """Wait until a condition holds; fails when the client exits first, or after `seconds`.

    A client that is alive can be slow on a busy machine: the time only bounds a hang.
    """
    seconds = seconds or (_HANGS_AFTER_SECONDS if client is not None else 120)
    deadline = time.monotonic() + seconds
    while not condition():
        assert client is None or client.poll() is None, f"the client exited before {what}"
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds:g} s"
        time.sleep(0.005)


def product_path(home: Path, stage: str) -> Path:
    """The folder of a stage's product, from `recipe path`."""
    done = run_command("path", stage, "--home", home)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def file_digests(folder: Path) -> dict[str, str]:
    """The sha256 of every file of a product."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def find_processes(home: Path) -> list[int]:
    """Running processes with a path of this home in their arguments or open files."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            links = [str(link.readlink()) for link in (entry / "fd").iterdir()]
            text = (entry / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(home) in text or any(link.startswith(str(home)) for link in links):
            found.append(int(entry.name))
    return found
