"""Runs the `recipe` command as a user does, and inspects the resulting home."""

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent
TINY_RECIPE = ROOT / "tests" / "recipes" / "tiny"
RECIPE_COMMAND = [sys.executable, "-m", "posttrain.cli.main"]


def run_command(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command and wait for it."""
    command = [*RECIPE_COMMAND, *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=cwd, stdin=subprocess.DEVNULL
    )


def start_command(*arguments: str | Path, log: Path) -> subprocess.Popen[bytes]:
    """Start the command without waiting for it."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [*RECIPE_COMMAND, *map(str, arguments)], stdout=output, stderr=output, stdin=subprocess.DEVNULL
        )


def wait_until(
    condition: Callable[[], bool],
    what: str,
    client: subprocess.Popen[bytes] | None = None,
    seconds: float = 120,
) -> None:
    """Wait until a condition holds; fails after `seconds`, or when the client exits first."""
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
