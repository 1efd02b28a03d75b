"""The journal of a run: the state of every step, in a SQLite file that is written as the run proceeds."""

import errno
import json
import os
import shutil
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from posttrain.runtime.store.file_system import file_system_of
from posttrain.spec.record import record

_SCHEMA = """
CREATE TABLE IF NOT EXISTS run (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS step (
    id TEXT PRIMARY KEY, key TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '',
    advice TEXT NOT NULL DEFAULT '', attempt INTEGER NOT NULL DEFAULT 0, began REAL, ended REAL,
    cost TEXT NOT NULL DEFAULT '{}', facts TEXT NOT NULL DEFAULT '{}', place INTEGER NOT NULL,
    estimate TEXT NOT NULL DEFAULT '{}'
);
"""
# With less free space than this the disk counts as full: SQLite then reports arbitrary errors.
_MIN_FREE_BYTES = 1 << 17
# The errors of SQLite without write permission.
_READ_ONLY_ERRORS = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
# Columns that are missing in journals of earlier versions.
_ADDED_COLUMNS = {"estimate": "TEXT NOT NULL DEFAULT '{}'"}


@record(kw_only=True)
class JournalEntry:
    """The record of one step of a run."""

    id: str
    key: str
    state: str
    reason: str
    advice: str
    attempt: int
    began: float | None
    ended: float | None
    cost: Mapping[str, Any]
    facts: Mapping[str, Any]
    # The time and memory that the plan estimated.
    estimate: Mapping[str, Any] = field(default_factory=dict[str, Any])


class DamagedJournal(Exception):
    """An unreadable journal. The journal is only a record: finished products are in the store."""


class Journal:
    """`read` opens an existing journal without creating one, also on a read-only file system."""

    def __init__(self, path: Path, *, read: bool = False) -> None:
        if read and not path.exists():
            raise DamagedJournal(f"the journal {path} is missing")
        if read and not path.stat().st_size:  # SQLite would take it for a new database
            raise DamagedJournal(f"the journal {path} is empty")
        self._path = path
        self._db = sqlite3.connect(path, isolation_level=None)
        try:
            self._prepare(read=read)
        except sqlite3.DatabaseError as error:
            self._db.close()
            if read and error.sqlite_errorcode & 0xFF in _READ_ONLY_ERRORS and self._open_immutable():
                return
            self._raise_if_disk_full(error)
            raise DamagedJournal(f"the journal {path} is damaged ({error})") from None

    def _prepare(self, *, read: bool) -> None:
        if read:
            # Not in the file of another program, nor in the journal of another version.
            self._db.execute("PRAGMA query_only = ON")
            self._db.execute("SELECT name, value FROM run LIMIT 1").fetchone()
            self._db.execute("SELECT id, key, state FROM step LIMIT 1").fetchone()
            return
        # With either mode, a crash of the machine can lose the last rows, but cannot corrupt the file.
        # WAL is faster; it needs memory that all processes share, and so works on one machine only.
        mode = "DELETE" if file_system_of(self._path.parent).is_network else "WAL"
        self._db.execute(f"PRAGMA journal_mode = {mode}")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.executescript(_SCHEMA)
        for name in self._missing_columns():
            self._db.execute(f"ALTER TABLE step ADD COLUMN {name} {_ADDED_COLUMNS[name]}")

    def _missing_columns(self) -> list[str]:
        existing = {row[1] for row in self._db.execute("PRAGMA table_info(step)")}
        return [name for name in _ADDED_COLUMNS if name not in existing]

    def _open_immutable(self) -> bool:
        """Open the file without the WAL files, which SQLite would have to write."""
        self._db = sqlite3.connect(f"{self._path.absolute().as_uri()}?immutable=1", uri=True)
        try:
            self._db.execute("SELECT id FROM step LIMIT 1").fetchone()
        except sqlite3.DatabaseError:
            self._db.close()
            return False
        return True

    def flush(self) -> None:
        """Commit the deferred rows."""
        if self._db.in_transaction:
            self._write("")

    def _write(self, statement: str, *rows: Sequence[Any], deferred: bool = False) -> None:
        """Write rows; deferred ones are committed with the next write that is not deferred."""
        try:
            if not self._db.in_transaction:
                self._db.execute("BEGIN")
            if rows:
                self._db.executemany(statement, rows)
            if not deferred:
                self._db.execute("COMMIT")
        except sqlite3.OperationalError as error:
            self._raise_if_disk_full(error)
            raise

    def _raise_if_disk_full(self, error: sqlite3.DatabaseError) -> None:
        """Report a full disk as ENOSPC, not as an internal error or a damaged file."""
        full = shutil.disk_usage(self._path.parent).free < _MIN_FREE_BYTES
        if full or error.sqlite_errorcode == sqlite3.SQLITE_FULL:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path)) from None

    def set(self, name: str, value: Any) -> None:
        """Record a value for the whole run."""
        self._write("INSERT OR REPLACE INTO run VALUES (?, ?)", (name, json.dumps(value)))

    def get(self, name: str, default: Any = None) -> Any:
        row = self._db.execute("SELECT value FROM run WHERE name = ?", (name,)).fetchone()
        return self._parse(row[0]) if row else default

    def add_steps(self, steps: list[tuple[str, str, Mapping[str, Any]]]) -> None:
        """Add the steps of the run in plan order: id, key and estimate."""
        rows = [(id, key, place, json.dumps(estimate)) for place, (id, key, estimate) in enumerate(steps)]
        self._write(
            "INSERT OR IGNORE INTO step (id, key, state, place, estimate) VALUES (?, ?, 'waiting', ?, ?)",
            *rows,
        )

    def update_step(self, id: str, state: str, **values: Any) -> None:
        """Record the new state of a step with its details. Cache hits are deferred."""
        if state == "running":
            values["began"] = time.time()
        elif state not in ("waiting", "queued", "cached"):
            values["ended"] = time.time()
        packed = {k: json.dumps(v) if isinstance(v, dict) else v for k, v in values.items()}
        columns = ", ".join(f"{name} = ?" for name in ("state", *packed))
        row = (state, *packed.values(), id)
        self._write(f"UPDATE step SET {columns} WHERE id = ?", row, deferred=state == "cached")

    def entries(self) -> list[JournalEntry]:
        missing = self._missing_columns()
        columns = [f"'{{}}' AS {c}" if c in missing else c for c in (*_SCALAR_COLUMNS, *_JSON_COLUMNS)]
        rows = self._db.execute(f"SELECT {', '.join(columns)} FROM step ORDER BY place").fetchall()
        return [self._parse_row(row) for row in rows]

    def _parse_row(self, row: tuple[Any, ...]) -> JournalEntry:
        plain = dict(zip(_SCALAR_COLUMNS, row, strict=False))
        packed: dict[str, Any] = {}
        for name, text in zip(_JSON_COLUMNS, row[len(_SCALAR_COLUMNS) :], strict=True):
            packed[name] = self._parse(text)
            if not isinstance(packed[name], dict):
                raise DamagedJournal(f"the journal {self._path} is damaged ({name} is not a JSON object)")
        if not all(isinstance(plain[name], str) for name in ("id", "key", "state", "reason", "advice")):
            raise DamagedJournal(f"the journal {self._path} is damaged (a column has binary data)")
        return JournalEntry(**plain, **packed)

    def _parse(self, text: Any) -> Any:
        try:
            return json.loads(text)
        except (ValueError, TypeError, RecursionError):
            raise DamagedJournal(f"the journal {self._path} is damaged (a value is not JSON)") from None

    def integrity_problem(self) -> str | None:
        """The result of SQLite's integrity check; None when the file is intact."""
        (result,) = self._db.execute("PRAGMA integrity_check(1)").fetchone()
        return None if result == "ok" else f"the journal is damaged ({result.splitlines()[-1]})"

    def close(self) -> None:
        self.flush()
        self._db.close()


_SCALAR_COLUMNS = ("id", "key", "state", "reason", "advice", "attempt", "began", "ended")
_JSON_COLUMNS = ("cost", "facts", "estimate")
