"""What happened in a run: one SQLite file, written as it happens."""

import json
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SCHEMA = """
CREATE TABLE IF NOT EXISTS run (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS step (
    id TEXT PRIMARY KEY, key TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '',
    advice TEXT NOT NULL DEFAULT '', attempt INTEGER NOT NULL DEFAULT 0, began REAL, ended REAL,
    cost TEXT NOT NULL DEFAULT '{}', facts TEXT NOT NULL DEFAULT '{}', place INTEGER NOT NULL
);
"""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What is known of one step of a run."""

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


class DamagedJournal(Exception):
    """A journal that cannot be read. It is a record: what was finished stands in the store."""


class Journal:
    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        try:
            self._prepare()
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise DamagedJournal(f"the journal {path} is damaged ({error})") from None

    def _prepare(self) -> None:
        # A record for people: it may lose its last lines with the machine, but never its consistency.
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.executescript(_SCHEMA)

    def set(self, name: str, value: Any) -> None:
        """Note a fact about the run as a whole."""
        self._db.execute("INSERT OR REPLACE INTO run VALUES (?, ?)", (name, json.dumps(value)))

    def get(self, name: str, default: Any = None) -> Any:
        row = self._db.execute("SELECT value FROM run WHERE name = ?", (name,)).fetchone()
        return json.loads(row[0]) if row else default

    def add_steps(self, steps: list[tuple[str, str]]) -> None:
        rows = [(id, key, place) for place, (id, key) in enumerate(steps)]
        self._db.execute("BEGIN")
        self._db.executemany(
            "INSERT OR IGNORE INTO step (id, key, state, place) VALUES (?, ?, 'waiting', ?)", rows
        )
        self._db.execute("COMMIT")

    def note(self, id: str, state: str, **values: Any) -> None:
        """A step's new state, with what is known about it."""
        if state == "running":
            values["began"] = time.time()
        elif state not in ("waiting", "cached"):
            values["ended"] = time.time()
        packed = {k: json.dumps(v) if isinstance(v, dict) else v for k, v in values.items()}
        columns = ", ".join(f"{name} = ?" for name in ("state", *packed))
        self._db.execute(f"UPDATE step SET {columns} WHERE id = ?", (state, *packed.values(), id))

    def entries(self) -> list[Entry]:
        rows = self._db.execute(
            "SELECT id, key, state, reason, advice, attempt, began, ended, cost, facts"
            " FROM step ORDER BY place"
        ).fetchall()
        names = ("id", "key", "state", "reason", "advice", "attempt", "began", "ended")
        return [
            Entry(**dict(zip(names, row[:8], strict=True)), cost=json.loads(row[8]), facts=json.loads(row[9]))
            for row in rows
        ]

    def close(self) -> None:
        self._db.close()
