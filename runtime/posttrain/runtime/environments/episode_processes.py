"""Runs episodes in worker processes, which are killed when a call times out.

Several episodes can share a process. If it is killed, the other episodes are restored in a new process by
replaying their row, seed and actions, which is possible because episodes are deterministic.
"""

import atexit
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posttrain.runtime.environments.environment_protocol import Action, EpisodeError, EpisodeFactory, Row
from posttrain.runtime.hosting.host_client import START_SECONDS, HostClient


@dataclass(frozen=True, kw_only=True)
class EpisodeProcessSpec:
    """The arguments to start a process of episodes."""

    # The Python interpreter. It does not need this package.
    python: str
    file: Path
    name: str
    # The arguments of the class, for each episode.
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    # Folders to import from.
    folders: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    seconds: float = 30.0

    def start_process(self) -> HostClient:
        file, name, params = self.file, self.name, self.params
        return HostClient(self.python, "episodes", file, name, params, self.folders, self.environment)


def pooled_episodes(spec: EpisodeProcessSpec, processes: int) -> EpisodeFactory:
    """Distribute episodes over a fixed number of processes, each started on first use."""
    hosts = [_EpisodeProcess(spec) for _ in range(processes)]
    count = 0

    def open_one() -> RemoteEpisode:
        nonlocal count
        count += 1
        return RemoteEpisode(hosts[count % processes], count)

    def close() -> None:
        for host in hosts:
            host.stop()

    atexit.register(close)
    return EpisodeFactory(open=open_one, max_concurrency=processes, close=close)


def isolated_episodes(spec: EpisodeProcessSpec, max_concurrency: int) -> EpisodeFactory:
    """Run every episode in a separate process, with a limit on concurrent calls."""
    hosts: list[_EpisodeProcess] = []

    def open_one() -> RemoteEpisode:
        hosts.append(_EpisodeProcess(spec))
        return RemoteEpisode(hosts[-1], 0, isolated=True)

    def close() -> None:
        while hosts:
            hosts.pop().stop()

    atexit.register(close)
    return EpisodeFactory(open=open_one, max_concurrency=max_concurrency, close=close)


class RemoteEpisode:
    def __init__(self, host: "_EpisodeProcess", number: int, *, isolated: bool = False) -> None:
        self._host = host
        self._isolated = isolated
        self._number = number
        # All requests so far, to replay the episode in a new process.
        self._history: list[dict[str, Any]] = []
        self._generation = -1

    def reset(self, row: Row, seed: int) -> str:
        return self._ask({"op": "reset", "row": dict(row), "seed": seed})["observation"]

    def step(self, action: Action) -> tuple[str, bool]:
        reply = self._ask({"op": "step", "action": action if isinstance(action, str) else dict(action)})
        return reply["observation"], reply["done"]

    def score(self) -> float:
        return self._ask({"op": "score"})["score"]

    def close(self) -> None:
        if self._history and self._host.alive and self._generation == self._host.generation:
            self._ask({"op": "close"})
        if self._isolated:
            self._host.stop()

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        message = {**message, "episode": self._number}
        with self._host.lock:
            self._host.start()
            if self._generation != self._host.generation:
                self._generation = self._host.generation
                for earlier in self._history:
                    self._host.ask(earlier)
            reply = self._host.ask(message)
        if message["op"] in ("reset", "step"):
            self._history.append(message)
        return reply


class _EpisodeProcess:
    """A worker process that is restarted after it was killed."""

    def __init__(self, spec: EpisodeProcessSpec) -> None:
        self._spec = spec
        self._process: HostClient | None = None
        self.lock = threading.RLock()
        # The number of starts. An episode of an earlier generation must be replayed.
        self.generation = 0

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.is_alive

    def start(self) -> None:
        if self.alive:
            return
        self.stop()
        try:
            self._process = self._spec.start_process()
        except OSError as error:
            raise EpisodeError(f"{self._spec.python} cannot be started: {error}") from None
        self.generation += 1
        self._check_reply(self._process.wait_until_ready(), START_SECONDS)

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self._process is not None, "the process must be started first"
        return self._check_reply(self._process.request(message, self._spec.seconds), self._spec.seconds)

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None

    def _check_reply(self, reply: dict[str, Any] | None, seconds: float) -> dict[str, Any]:
        if reply is None:
            self.stop()
            raise EpisodeError(f"no reply within {seconds:g} s")
        if "error" in reply:
            raise EpisodeError(reply["error"], reply.get("traceback", ""))
        return reply
