"""Episodes that live in processes of their own, which are killed when a call takes too long.

Several episodes share a process. When one of them kills it, the others are brought back to where they
were: an episode is what its row, its seed and the actions so far make of it.
"""

import atexit
import json
import os
import selectors
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posttrain.runtime.environments.protocol import Action, Place, Row, Trouble

_START_SECONDS = 120.0  # the file may import something heavy
_HOSTING = Path(__file__).with_name("hosting.py")


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

    def command(self) -> list[str]:
        return [self.python, str(_HOSTING), str(self.file), self.name, json.dumps(self.params), *self.folders]


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
        self._popen: subprocess.Popen[bytes] | None = None
        self._rest = b""
        self.lock = threading.RLock()
        # How often it was started: an episode of an earlier life must be told again.
        self.life = 0

    @property
    def alive(self) -> bool:
        return self._popen is not None and self._popen.poll() is None

    def start(self) -> None:
        if self.alive:
            return
        self.stop()
        environment = {**os.environ, **self._home.environment}
        try:
            self._popen = subprocess.Popen(
                self._home.command(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                env=environment,
            )
        except OSError as error:
            raise Trouble(f"{self._home.python} cannot be started: {error}") from None
        self.life += 1
        self._rest = b""
        self._taken(self._answer(_START_SECONDS), _START_SECONDS)

    def ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        assert self._popen is not None, "a host is started before it is asked"
        assert self._popen.stdin is not None, "its input is a pipe"
        try:
            self._popen.stdin.write(json.dumps(asked).encode() + b"\n")
        except OSError:
            raise Trouble(f"its process ended with status {self._popen.wait()}") from None
        return self._taken(self._answer(self._home.seconds), self._home.seconds)

    def stop(self) -> None:
        if self._popen is not None:
            self._popen.kill()
            self._popen.wait()
            for pipe in (self._popen.stdin, self._popen.stdout):
                assert pipe is not None, "both are pipes"
                pipe.close()
            self._popen = None

    def _taken(self, told: dict[str, Any] | None, seconds: float) -> dict[str, Any]:
        if told is None:
            self.stop()
            raise Trouble(f"it did not answer in {seconds:g} s")
        if "error" in told:
            raise Trouble(told["error"])
        return told

    def _answer(self, seconds: float) -> dict[str, Any] | None:
        """The next answer; None when there is none in time."""
        assert self._popen is not None, "a host is started before it answers"
        assert self._popen.stdout is not None, "its output is a pipe"
        end = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._popen.stdout, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                left = end - time.monotonic()
                if left <= 0 or not selector.select(left):
                    return None
                piece = os.read(self._popen.stdout.fileno(), 1 << 16)
                if not piece:
                    return {"error": f"its process ended with status {self._popen.wait()}"}
                self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)
