"""Measures on the NVIDIA card of this machine, in parts that do not depend on each other.

    python -m perf.cuda [PART ...] [--dry] [--stack locked|host] [--pieces FOLDER] [--out FOLDER]
                        [--image NAME]

A part is a process with a limit of time. It writes its page after every row; one that fails adds the cause
to its page, and the next part runs. `--dry` runs the same code on a CPU with tiny models, and measures
nothing. `--stack host` records versions that differ from the lock instead of refusing them. `--pieces`
names wheels of `make cuda-wheels`, of which each part installs its own. Results are written to --out, else
$OUT, else perf/cuda/results (a dry run without either: a temporary folder).

This file imports nothing that a host without our packages lacks.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from perf.cuda.parts import OPTIONAL_PACKAGES, PARTS, Part, find_part

ROOT = Path(__file__).parents[2]
SOURCES = [str(ROOT / name) for name in ("spec", "compiler", "runtime")]
FAILED = 3  # the exit status of a part that has written the cause to its page
_RECORDED = "failed, see its page"
_GRACE_SECONDS = 15  # for a part to end by itself at its limit
_DRY_FACTOR = 4  # a machine that is busy with other work is slow, and no lease ends


def main() -> int:
    given = parse(sys.argv[1:])
    sys.path += SOURCES
    signal.signal(signal.SIGTERM, _terminated)
    adopt_orphans()
    parts = [find_part(name) for name in given.parts] or list(PARTS)
    out = output_folder(given)
    failed = [part.name for part in parts if not run_part(part, given, out)]
    print(f"results: {out}")
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


def _terminated(_signal: int, _frame: object) -> NoReturn:
    """End as after an error: the processes and the folders of the part are removed."""
    raise SystemExit("ended by SIGTERM")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--dry", action="store_true")
    parser.add_argument("--stack", choices=("locked", "host"), default="locked")
    parser.add_argument("--pieces", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--image", help="of the step in a container; default: what containers/build names")
    parser.add_argument("--seconds", type=int, help="the limit of each part; default: that of the part")
    return parser.parse_args(arguments)


def output_folder(given: argparse.Namespace) -> Path:
    named = given.out or (Path(os.environ["OUT"]) if os.environ.get("OUT") else None)
    if named is None:
        named = Path(tempfile.mkdtemp(prefix="posttrain-cuda-")) if given.dry else ROOT / "perf/cuda/results"
    named.mkdir(parents=True, exist_ok=True)
    return named.resolve()


def run_part(part: Part, given: argparse.Namespace, out: Path) -> bool:
    """Run a part in its process. Returns whether it has ended without an error."""
    began = time.monotonic()
    seconds = given.seconds or part.seconds * (_DRY_FACTOR if given.dry else 1)
    module = [sys.executable, "-m", "perf.cuda.part_process", part.name, "--stack", given.stack]
    module += ["--out", str(out), *(["--dry"] if given.dry else [])]
    with tempfile.TemporaryDirectory(prefix="posttrain-cuda-") as packages:
        environment, error = part_environment(part, given.pieces, Path(packages))
        if not error:
            left = max(1, seconds - int(time.monotonic() - began))
            options = ["--image", given.image] if given.image else []
            # Removed before a cause is recorded: the part may have filled the disk.
            with tempfile.TemporaryDirectory(prefix="posttrain-cuda-", ignore_cleanup_errors=True) as scratch:
                command = [*module, *options, "--scratch", scratch, "--seconds", str(left)]
                try:
                    error = run_limited(command, environment, left + _GRACE_SECONDS)
                finally:
                    end_orphans()
        if error and error != _RECORDED:  # it could not write the cause itself
            subprocess.run([*module, "--failed", error], env=environment, cwd=ROOT, check=False)
    print(f"{part.name}: {error or 'done'} in {time.monotonic() - began:.0f} s", flush=True)
    return not error


def adopt_orphans() -> None:
    """Become the parent of what a part leaves behind, so that nothing of it uses the card during the next."""
    from posttrain.runtime.process_tree import become_subreaper

    become_subreaper()


def end_orphans() -> None:
    from posttrain.runtime.process_tree import end_descendants

    end_descendants()
    with contextlib.suppress(ChildProcessError):  # no child is left
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def part_environment(part: Part, pieces: Path | None, site: Path) -> tuple[dict[str, str], str]:
    """The environment of a part: its sources, and the wheels that it needs of the carried ones. Then why they
    cannot be installed, or an empty text."""
    path = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]
    error = ""
    if pieces is not None:
        from perf.cuda.wheels import install, piece_names

        left_out = set(OPTIONAL_PACKAGES) - set(part.optional_packages)
        try:
            install(pieces, site, [name for name in piece_names(pieces) if name not in left_out])
        except SystemExit as failure:
            error = f"the packages of {pieces} cannot be installed: {failure}"
        path = [str(site), *path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*SOURCES, *path])}, error


def run_limited(command: Sequence[str], environment: dict[str, str], seconds: float) -> str:
    """Run a process with all its children. Returns the cause of a failure, or an empty text."""
    process = subprocess.Popen(command, env=environment, cwd=ROOT, start_new_session=True)
    try:
        status = process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return f"the process did not end within {seconds:.0f} s and was killed"
    except BaseException:  # this process is ended
        process.kill()
        process.wait()
        raise
    if status == FAILED:
        return _RECORDED
    return f"the process ended with status {status}" if status else ""


if __name__ == "__main__":
    sys.exit(main())
