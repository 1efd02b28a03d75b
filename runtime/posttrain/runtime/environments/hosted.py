"""Episodes that live in processes of their own, which are killed when a call takes too long.

Several episodes share a process. When one of them kills it, the others are brought back to where they
were: an episode is what its row, its seed and the actions so far make of it.
"""

import atexit
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posttrain.runtime.environments.protocol import Action, Place, Row, Trouble
from posttrain.runtime.hosting.outside import START_SECONDS, Host


@dataclass(frozen=True, kw_only=True)
class Home:
    """What a process of episodes is started with."""

    # The interpreter; it need not have anything of ours.
    python: str
    file: Path
    name: str
    # What the class is made with for each episode.
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    # Folders that the file may import from.
    folders: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    seconds: float = 30.0

    def process(self) -> Host:
        file, name, params = self.file, self.name, self.params
        return Host(self.python, "episodes", file, name, params, self.folders, self.environment)


def place(home: Home, processes: int) -> Place:
    """Episodes dealt out over so many processes, each started when it is first needed."""
    hosts = [_Host(home) for _ in range(processes)]
    count = 0

    def open_one() -> HostedEpisode:
        nonlocal count
        count += 1
        return HostedEpisode(hosts[count % processes], count)

    def close() -> None:
        for host in hosts:
            host.stop()

    atexit.register(close)
    return Place(open=open_one, at_once=processes, close=close)


def place_apart(home: Home, at_once: int) -> Place:
    """Every episode in a process of its own, which ends with it; so many of them are in a call at a time."""
    hosts: list[_Host] = []

    def open_one() -> HostedEpisode:
        hosts.append(_Host(home))
        return HostedEpisode(hosts[-1], 0, apart=True)

    def close() -> None:
        while hosts:
            hosts.pop().stop()

    atexit.register(close)
    return Place(open=open_one, at_once=at_once, close=close)


class HostedEpisode:
    def __init__(self, host: "_Host", number: int, *, apart: bool = False) -> None:
        self._host = host
        self._apart = apart
        self._number = number
        # All that has been asked: what a new process is told to have the same episode again.
        self._past: list[dict[str, Any]] = []
        self._life = -1

    def reset(self, row: Row, seed: int) -> str:
        return self._ask({"do": "reset", "row": dict(row), "seed": seed})["observation"]

    def step(self, action: Action) -> tuple[str, bool]:
        told = self._ask({"do": "step", "action": action if isinstance(action, str) else dict(action)})
        return told["observation"], told["over"]

    def score(self) -> float:
        return self._ask({"do": "score"})["score"]

    def close(self) -> None:
        if self._past and self._host.alive and self._life == self._host.life:
            self._ask({"do": "close"})
        if self._apart:
            self._host.stop()

    def _ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        asked = {**asked, "episode": self._number}
        with self._host.lock:
            self._host.start()
            if self._life != self._host.life:
                self._life = self._host.life
                for earlier in self._past:
                    self._host.ask(earlier)
            told = self._host.ask(asked)
        if asked["do"] in ("reset", "step"):
            self._past.append(asked)
        return told


class _Host:
    """A process, and the one that is started after it was killed."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._process: Host | None = None
        self.lock = threading.RLock()
        # How often it was started: an episode of an earlier life must be told again.
        self.life = 0

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.alive

    def start(self) -> None:
        if self.alive:
            return
        self.stop()
        try:
            self._process = self._home.process()
        except OSError as error:
            raise Trouble(f"{self._home.python} cannot be started: {error}") from None
        self.life += 1
        self._taken(self._process.ready(), START_SECONDS)

    def ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        assert self._process is not None, "a host is started before it is asked"
        return self._taken(self._process.ask(asked, self._home.seconds), self._home.seconds)

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None

    def _taken(self, told: dict[str, Any] | None, seconds: float) -> dict[str, Any]:
        if told is None:
            self.stop()
            raise Trouble(f"it did not answer in {seconds:g} s")
        if "error" in told:
            raise Trouble(told["error"])
        return told
