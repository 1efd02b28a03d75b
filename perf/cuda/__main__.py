"""Measures on the NVIDIA card of this machine, in parts that do not depend on each other.

    python -m perf.cuda [PART ...] [--dry] [--stack locked|host] [--pieces FOLDER] [--out FOLDER]

A part is a process with a limit of time. It writes its page after every row; one that fails adds the cause
to its page, and the next part runs. `--dry` runs the same code on a CPU with tiny models, and measures
nothing. `--stack host` records versions that differ from the lock instead of refusing them. `--pieces`
names wheels of `make cuda-wheels`, of which each part installs its own. Results are written to --out, else
$OUT, else perf/cuda/results (a dry run without either: a temporary folder).

This file imports nothing that a host without our packages lacks.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from perf.cuda.parts import OPTIONAL_PACKAGES, PARTS, Part, find_part

ROOT = Path(__file__).parents[2]
FAILED = 3  # the exit status of a part that has written the cause to its page
_GRACE_SECONDS = 15  # for a part to end by itself at its limit


def main() -> int:
    given = parse(sys.argv[1:])
    parts = [find_part(name) for name in given.parts] or list(PARTS)
    out = output_folder(given)
    failed = [part.name for part in parts if not run_part(part, given, out)]
    print(f"results: {out}")
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--dry", action="store_true")
    parser.add_argument("--stack", choices=("locked", "host"), default="locked")
    parser.add_argument("--pieces", type=Path)
    parser.add_argument("--out", type=Path)
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
    seconds = given.seconds or part.seconds
    with tempfile.TemporaryDirectory(prefix="posttrain-cuda-") as scratch:
        environment = part_environment(part, given.pieces, Path(scratch) / "site")
        common = [part.name, "--stack", given.stack, "--out", str(out), *(["--dry"] if given.dry else [])]
        module = [sys.executable, "-m", "perf.cuda.part_process"]
        left = max(1, seconds - int(time.monotonic() - began))
        command = [*module, *common, "--scratch", scratch, "--seconds", str(left)]
        error = run_limited(command, environment, left + _GRACE_SECONDS)
        if error.startswith("the process"):  # it could not write the cause itself
            subprocess.run([*module, *common, "--failed", error], env=environment, cwd=ROOT, check=False)
    print(f"{part.name}: {error or 'done'} in {time.monotonic() - began:.0f} s", flush=True)
    return not error


def part_environment(part: Part, pieces: Path | None, site: Path) -> dict[str, str]:
    """The environment of a part: its sources, and the wheels that it needs of the carried ones."""
    roots = [str(ROOT / name) for name in ("spec", "compiler", "runtime")]
    path = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]
    if pieces is not None:
        from perf.cuda.wheels import install, piece_names

        left_out = set(OPTIONAL_PACKAGES) - set(part.optional_packages)
        install(pieces, site, [name for name in piece_names(pieces) if name not in left_out])
        path = [str(site), *path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*roots, *path])}


def run_limited(command: Sequence[str], environment: dict[str, str], seconds: float) -> str:
    """Run a process with all its children. Returns the cause of a failure, or an empty text."""
    process = subprocess.Popen(command, env=environment, cwd=ROOT, start_new_session=True)
    try:
        status = process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return f"the process did not end within {seconds:.0f} s and was killed"
    if status == FAILED:
        return "failed, see its page"
    return f"the process ended with status {status}" if status else ""


if __name__ == "__main__":
    sys.exit(main())
