"""Wheels as files: their names and sizes, their distribution over pieces, and the removal of libraries."""

import csv
import io
import re
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

MB = 10**6
# A library for one version of CUDA, or for another vendor.
_LIBRARY = re.compile(r"\.?lib\w+?_(?:cuda|rocm|xpu)(\w+)\.so$")


@dataclass(frozen=True)
class Wheel:
    name: str
    path: Path
    size: int

    @classmethod
    def at(cls, path: Path) -> "Wheel":
        name = re.sub(r"[-_.]+", "-", path.name.partition("-")[0]).lower()
        return cls(name, path, path.stat().st_size)


def pack_pieces(wheels: Iterable[Wheel], limit: int) -> list[list[Wheel]]:
    """Distribute wheels over as few pieces as the largest-first order gives, none above the limit."""
    pieces: list[list[Wheel]] = []
    for wheel in sorted(wheels, key=lambda one: (-one.size, one.name)):
        if wheel.size > limit:
            raise SystemExit(
                f"{wheel.path.name} has {wheel.size / MB:.1f} MB, more than a piece of {limit / MB:.0f} MB"
            )
        for piece in pieces:
            if sum(one.size for one in piece) + wheel.size <= limit:
                piece.append(wheel)
                break
        else:
            pieces.append([wheel])
    return pieces


def keep_libraries(wheel: Path, cuda: str) -> None:
    """Remove the libraries of other CUDA versions from a wheel, and their lines from its RECORD."""
    kept = "cuda" + cuda.replace(".", "")
    with zipfile.ZipFile(wheel) as source:
        removed = {name for name in source.namelist() if _is_other_library(name, kept)}
        present = [name for name in source.namelist() if name.endswith(f"_{kept}.so")]
        if removed and not present:
            raise SystemExit(f"{wheel.name} has no library for CUDA {cuda}")
        smaller = wheel.with_suffix(".smaller")
        with zipfile.ZipFile(smaller, "w", zipfile.ZIP_DEFLATED) as target:
            for item in source.infolist():
                if item.filename in removed:
                    continue
                data = source.read(item)
                if item.filename.endswith(".dist-info/RECORD"):
                    data = _without_lines(data, removed)
                target.writestr(item, data, compress_type=zipfile.ZIP_DEFLATED)
    smaller.replace(wheel)


def _is_other_library(name: str, kept: str) -> bool:
    return _LIBRARY.search(name) is not None and not name.endswith(f"_{kept}.so")


def _without_lines(record: bytes, removed: Iterable[str]) -> bytes:
    gone = set(removed)
    rows = [row for row in csv.reader(io.StringIO(record.decode())) if row and row[0] not in gone]
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(rows)
    return written.getvalue().encode()
