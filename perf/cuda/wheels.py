"""Collects the wheels that a GPU host without network lacks, and installs them there.

    python -m perf.cuda.wheels collect [--host FILE] [--to .wheels] [--piece-mb 50] [--cuda 13.0]
    python -m perf.cuda.wheels install --pieces .wheels --to FOLDER [NAME ...]

`collect` resolves our requirements without vLLM, for Python 3.12 on Linux x86-64, to the locked versions,
leaves out what the host has (`host_packages.txt`), downloads the rest by hash, builds DeepSpeed's wheel
from its source, and distributes all over folders of at most `--piece-mb`. The libraries of bitsandbytes for
other versions of CUDA are removed. `install` needs only pip, and neither network nor dependencies
(`--no-deps`).
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

from perf.cuda.wheel_files import MB, Wheel, keep_libraries, pack_pieces

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PYTHON = "3.12"
# Built from its source, because there are no wheels.
_BUILT = ("deepspeed",)
# Too large to carry, and it requires the locked torch.
_LEFT_OUT = ("vllm",)
# pip compares platform tags literally: every version of glibc up to this one that a wheel can name.
_PLATFORMS = (
    *(f"manylinux_2_{minor}_x86_64" for minor in range(28, 4, -1)),
    *(f"manylinux{name}_x86_64" for name in ("2014", "2010", "1")),
)


def collect(host: Path, target: Path, piece: int, cuda: str) -> list[list[Wheel]]:
    """Write the pieces below `target`, and return their wheels."""
    check_target(target)
    entries = missing_entries(resolve(), read_names(host))
    with tempfile.TemporaryDirectory(prefix="posttrain-wheels-") as folder:
        downloaded = Path(folder)
        _download([text for name, text in entries.items() if name not in _BUILT], downloaded)
        for name in _BUILT:
            if name in entries:
                _build(entries[name], downloaded)
        for path in downloaded.glob("bitsandbytes-*.whl"):
            keep_libraries(path, cuda)
        pieces = pack_pieces([Wheel.at(path) for path in sorted(downloaded.glob("*.whl"))], piece)
        shutil.rmtree(target, ignore_errors=True)  # only now: a failure leaves the pieces of an earlier run
        for number, wheels in enumerate(pieces, start=1):
            to = target / str(number)
            to.mkdir(parents=True)
            for wheel in wheels:
                shutil.copy(wheel.path, to)
    return pieces


def check_target(target: Path) -> None:
    """Refuse a folder with anything but pieces of an earlier run, because it is replaced."""
    files = [path for path in target.rglob("*") if not path.is_dir() or path.is_symlink()]
    foreign = [path for path in files if path.suffix != ".whl" or not path.parent.name.isdecimal()]
    if foreign or (target.exists() and not target.is_dir()):
        shown = foreign[0] if foreign else target
        raise SystemExit(f"{target} would be replaced, but has {shown}: choose an empty folder with --to")


def read_names(path: Path) -> frozenset[str]:
    """The names in a file of words and comments."""
    lines = (line.partition("#")[0] for line in path.read_text(encoding="utf-8").splitlines())
    return frozenset(canonical(name) for line in lines for name in line.split())


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements() -> list[str]:
    """What the program requires at run time on a GPU."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    named = [*project["dependencies"], *extras["train"], *extras["cuda"]]
    return [one for one in named if re.split(r"[\[<>=~! ;]", one)[0] not in _LEFT_OUT]


def resolve() -> str:
    """The closure of the requirements with the versions and hashes of the lock."""
    with tempfile.TemporaryDirectory(prefix="posttrain-wheels-") as folder:
        roots = Path(folder) / "roots.in"
        roots.write_text("\n".join(requirements()) + "\n", encoding="utf-8")
        command = [
            *("uv", "pip", "compile", "-q", str(roots), "-c", str(ROOT / "requirements" / "cuda.txt")),
            *("--python-version", PYTHON, "--python-platform", "x86_64-manylinux_2_28"),
            *("--generate-hashes", "--no-emit-index-url", "--no-annotate", "--no-header"),
        ]
        uv = Path(sys.executable).with_name("uv")
        command[0] = str(uv) if uv.exists() else "uv"
        return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout


def missing_entries(lock: str, present: Iterable[str]) -> dict[str, str]:
    """The entries of a lock, by name, without those that are present."""
    entries = re.split(r"\n(?=[A-Za-z0-9])", lock.strip())
    by_name = {canonical(entry.partition("==")[0]): entry for entry in entries}
    return {name: entry for name, entry in by_name.items() if name not in set(present)}


def _pip() -> list[str]:
    """pip of this interpreter, or of the one that created its environment, for this interpreter."""
    here = [sys.executable, "-m", "pip"]
    if subprocess.run([*here, "--version"], capture_output=True, check=False).returncode == 0:
        return here
    base = Path(sys.base_prefix) / "bin" / "python3"
    return [str(base), "-m", "pip", "--python", sys.executable]


def _download(entries: Sequence[str], target: Path) -> None:
    listed = target / "entries.txt"
    listed.write_text("\n".join(entries) + "\n", encoding="utf-8")
    platforms = [word for platform in _PLATFORMS for word in ("--platform", platform)]
    abis = [word for abi in ("cp312", "abi3", "none") for word in ("--abi", abi)]
    options = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--python-version", PYTHON]
    _run([*_pip(), "download", "-q", *options, *platforms, *abis, "-r", str(listed), "-d", str(target)])


def _build(entry: str, target: Path) -> None:
    """Build a wheel from the locked source, with the packages of this environment."""
    with tempfile.TemporaryDirectory(prefix="posttrain-wheels-") as folder:
        listed = Path(folder) / "entry.txt"
        listed.write_text(entry + "\n", encoding="utf-8")
        options = ["--no-deps", "--no-build-isolation", "--require-hashes", "--no-binary", ":all:"]
        _run([*_pip(), "wheel", "-q", *options, "-r", str(listed), "-w", str(target)])


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, check=False, text=True, capture_output=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        errors = [line for line in lines if line.startswith("ERROR")] or lines[-5:]
        raise SystemExit("\n".join([f"{command[0]} {' '.join(command[1:5])} ... failed:", *errors]))


def piece_names(pieces: Path) -> list[str]:
    found = [Wheel.at(path).name for path in sorted(pieces.rglob("*.whl"))]
    if not found:
        raise SystemExit(f"there are no wheels in {pieces}; `make cuda-wheels` collects them")
    return found


def install(pieces: Path, target: Path, names: Iterable[str]) -> list[str]:
    """Install the wheels of these names, or all, into a folder; return the names that no piece has."""
    found = {wheel.name: wheel.path for wheel in map(Wheel.at, sorted(pieces.rglob("*.whl")))}
    wanted = [canonical(name) for name in names] or list(found)
    paths = [str(found[name]) for name in wanted if name in found]
    if paths:
        options = ["--no-index", "--no-deps", "--no-compile", "--no-cache-dir", "--upgrade"]
        _run([*_pip(), "install", "-q", *options, "--target", str(target), *paths])
    return [name for name in wanted if name not in found]


def print_pieces(pieces: Sequence[Sequence[Wheel]]) -> None:
    for number, wheels in enumerate(pieces, start=1):
        print(f"piece {number}: {sum(w.size for w in wheels) / MB:.1f} MB, {len(wheels)} wheels")
        for wheel in wheels:
            print(f"  {wheel.size / MB:6.2f} MB  {wheel.path.name}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    collecting = verbs.add_parser("collect")
    collecting.add_argument("--host", type=Path, default=HERE / "host_packages.txt")
    collecting.add_argument("--to", type=Path, default=ROOT / ".wheels")
    collecting.add_argument("--piece-mb", type=int, default=50)
    collecting.add_argument("--cuda", default="13.0", help="the CUDA version of the host's torch")
    installing = verbs.add_parser("install")
    installing.add_argument("--pieces", type=Path, required=True)
    installing.add_argument("--to", type=Path, required=True)
    installing.add_argument("names", nargs="*")
    given = parser.parse_args()
    if given.verb == "collect":
        print_pieces(collect(given.host, given.to, given.piece_mb * MB, given.cuda))
        return
    for name in install(given.pieces, given.to, given.names):
        print(f"{name}: no wheel in {given.pieces}")


if __name__ == "__main__":
    main()
