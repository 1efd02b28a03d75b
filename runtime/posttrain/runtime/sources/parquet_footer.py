"""Reads the footer of a Parquet file: its columns, its number of rows, and the nulls of each column.

The footer uses the compact protocol of Thrift. The parser has no dependencies, because a recipe is checked
without the libraries that read the rows. For a truncated, encrypted or unusual file it returns None.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from posttrain.spec.extension import NullStats
from posttrain.spec.record import record

_MAGIC = b"PAR1"
_MAX_DEPTH = 32


@record
class Footer:
    columns: tuple[str, ...]
    # The number of rows of each row group, and its null count for each column that is not nested.
    groups: tuple[tuple[int, Mapping[str, int]], ...]


def read_footer(data: bytes) -> Footer | None:
    if len(data) < 12 or data[:4] != _MAGIC or data[-4:] != _MAGIC:
        return None
    size = struct.unpack("<I", data[-8:-4])[0]
    try:
        metadata = _ThriftReader(data[-8 - size : -8]).read_struct()
        return Footer(tuple(_column_names(metadata[2])), tuple(_read_row_group(one) for one in metadata[4]))
    except (IndexError, KeyError, TypeError, ValueError, AttributeError, struct.error):
        return None


def footer_gaps(path: str, footer: Footer, columns: Sequence[str]) -> dict[str, NullStats]:
    """The columns that have nulls. The place of the first null is known only up to its row group."""
    gaps: dict[str, NullStats] = {}
    total = sum(rows for rows, _ in footer.groups)
    for name in columns:
        before, nulls, first = 0, 0, ""
        for rows, counted in footer.groups:
            if counted.get(name):
                first = first or f"among the rows {before + 1} to {before + rows} of {path}"
                nulls += counted[name]
            before += rows
        if nulls:
            gaps[name] = NullStats(first_row=first, null_rows=nulls, rows_checked=total)
    return gaps


def _column_names(elements: Sequence[Mapping[int, Any]]) -> list[str]:
    """The names of the top-level columns. The schema is a tree in depth-first order."""
    names: list[str] = []
    place = 1
    for _ in range(elements[0][5]):
        names.append(elements[place][4].decode("utf-8"))
        place = _next_sibling(elements, place)
    return names


def _next_sibling(elements: Sequence[Mapping[int, Any]], place: int) -> int:
    """The index after an element and its descendants."""
    left = 1
    while left:
        left += elements[place].get(5, 0) - 1
        place += 1
    return place


def _read_row_group(group: Mapping[int, Any]) -> tuple[int, dict[str, int]]:
    nulls: dict[str, int] = {}
    for chunk in group[1]:
        metadata = chunk[3]
        count = metadata.get(12, {}).get(3)
        if len(metadata[3]) == 1 and count is not None:
            nulls[metadata[3][0].decode("utf-8")] = count
    return group[3], nulls


class _ThriftReader:
    """Reads Thrift structures as mappings from field numbers to values."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0
        self._depth = 0

    def read_struct(self) -> dict[int, Any]:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ValueError("nested too deeply")
        fields: dict[int, Any] = {}
        number = 0
        while (head := self._byte()) & 0x0F:
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            kind = head & 0x0F
            fields[number] = kind == 1 if kind in (1, 2) else self._value(kind)
        self._depth -= 1
        return fields

    def _value(self, kind: int) -> Any:
        readers: dict[int, Callable[[], Any]] = {
            **dict.fromkeys((1, 2, 3), self._byte),
            **dict.fromkeys((4, 5, 6), self._zigzag),
            7: lambda: self._take(8),
            8: lambda: self._take(self._varint()),
            **dict.fromkeys((9, 10), self._list),
            11: self._map,
            12: self.read_struct,
        }
        return readers[kind]()

    def _list(self) -> list[Any]:
        head = self._byte()
        size = self._varint() if head >> 4 == 15 else head >> 4
        return [self._value(head & 0x0F) for _ in range(size)]

    def _map(self) -> None:
        size = self._varint()
        kinds = self._byte() if size else 0
        for _ in range(size):
            self._value(kinds >> 4)
            self._value(kinds & 0x0F)

    def _zigzag(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)

    def _varint(self) -> int:
        number = shift = 0
        while (byte := self._byte()) & 0x80:
            number |= (byte & 0x7F) << shift
            shift += 7
            if shift > 63:
                raise ValueError("a number of more than 64 bits")
        return number | byte << shift

    def _byte(self) -> int:
        byte = self._data[self._position]
        self._position += 1
        return byte

    def _take(self, size: int) -> bytes:
        chunk = self._data[self._position : self._position + size]
        self._position += size
        return chunk
