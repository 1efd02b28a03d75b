"""Checks a node of a place: `python -m posttrain.runtime.runners.cluster.node_check FOLDER INDEX NODES`.

One or two jobs run it at the same time on different nodes, with a folder in the home. They see each other's
files, rename, lock and compare their clocks. Each writes a result, which `place_check.py` reads.
"""

import fcntl
import json
import os
import platform
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posttrain.runtime import atomic_io
from posttrain.runtime.machine import installed_gpus, visible_gpus
from posttrain.runtime.runners.image_check import installed_versions
from posttrain.runtime.store.file_system import file_system_of

_SECONDS = 60.0  # for the other node: its job can start later
_POLL_SECONDS = 0.005
_RENAMES = 50
CLIENT_TEXT = "written by the client"


class NodeCheck:
    """The checks of one node; the other node has the other index."""

    def __init__(self, folder: Path, index: int, nodes: int) -> None:
        self._folder = folder
        self._index = index
        self._nodes = nodes

    def run(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "node": platform.node(),
            "python": sys.executable,
            "versions": installed_versions(),
            "gpus": list(visible_gpus(installed_gpus(), os.environ)),
            "client_visible": self._sees_client(),
            "renames": self._renames(),
            "file_system": file_system_of(self._folder).type,
        }
        if self._nodes > 1:
            self._write(f"hello-{self._index}", {"time": time.time()})
            found["peer_visible"] = self._wait_for(f"hello-{1 - self._index}") is not None
            if found["peer_visible"]:
                found |= {"lock_shared": self._shares_lock(), **self._compare_clocks()}
        return found

    def _sees_client(self) -> bool:
        try:
            return (self._folder / "client").read_text() == CLIENT_TEXT
        except OSError:
            return False

    def _renames(self) -> bool:
        """Whether a replaced file is never missing or partial."""
        target = self._folder / f"renamed-{self._index}"
        try:
            for number in range(_RENAMES):
                atomic_io.write_json(target, {"number": number}, sync=False)
                if json.loads(target.read_text()) != {"number": number}:
                    return False
        except (OSError, ValueError):
            return False
        return True

    def _shares_lock(self) -> bool | None:
        """Whether a lock of one node holds on the other; None on the node that only holds it, or after an
        error."""
        try:
            with (self._folder / "lock").open("w") as file:
                if self._index == 0:
                    fcntl.flock(file, fcntl.LOCK_EX)
                    self._write("locked", {})
                    self._wait_for("tried")
                    return None
                self._wait_for("locked")
                return self._is_refused(file.fileno())
        except OSError:
            return False
        finally:
            if self._index == 1:
                self._write("tried", {})

    def _is_refused(self, descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False

    def _compare_clocks(self) -> dict[str, float]:
        """The difference of the clocks in seconds, and its uncertainty: half of the time of a question."""
        if self._index == 1:
            if self._wait_for("ping") is not None:
                self._write("pong", {"time": time.time()})
            return {}
        sent = time.time()
        self._write("ping", {})
        pong = self._wait_for("pong")
        received = time.time()
        if pong is None:
            return {}
        return {
            "clock_difference": pong["time"] - (sent + received) / 2,
            "clock_error": (received - sent) / 2,
        }

    def _write(self, name: str, value: Mapping[str, Any]) -> None:
        atomic_io.write_json(self._folder / name, dict(value), sync=False)

    def _wait_for(self, name: str) -> dict[str, Any] | None:
        deadline = time.monotonic() + _SECONDS
        while time.monotonic() < deadline:
            found = atomic_io.read_json(self._folder / name)
            if found is not None:
                return found
            time.sleep(_POLL_SECONDS)
        return None


def main(folder: Path, index: int, nodes: int) -> None:
    if not folder.is_dir():
        print(f"{platform.node()} has no {folder}: the home is not on a disk that it shares", flush=True)
        raise SystemExit(1)
    found = NodeCheck(folder, index, nodes).run()
    atomic_io.write_json(folder / f"result-{index}", found, sync=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
