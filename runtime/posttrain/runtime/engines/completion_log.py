"""Completions as they come, a line each, so that a killed step goes on where it stopped.

A line names the prompt that it answers by its digest, and the number of the draw. A line that was cut
short is as if it had not been written.
"""

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from posttrain.spec.keys import digest

# Text as it stands, or the turns of a conversation: mappings with `role` and `content`.
Prompt = str | list[dict[str, str]]


@dataclass(frozen=True, slots=True)
class Completion:
    # None when no reply came.
    text: str | None
    # As many as the model or its server counts, where it says so.
    tokens: int | None
    # "stop" when the model ended by itself, "length" when it was cut, "timeout" and "error" without
    # a reply; what else a server gives as its reason, as it says it.
    finish: str
    # Why there is no reply.
    error: str | None = None


class CompletionLog:
    """The completions of one request, on the disk where a path is given."""

    def __init__(self, path: Path | None, prompts: Sequence[Prompt], samples: int) -> None:
        self.samples = samples
        self._prompt_ids = _assign_prompt_ids(prompts)
        self._indices = {name: place for place, name in enumerate(self._prompt_ids)}
        self._completions: dict[tuple[int, int], Completion] = {}
        self._file = None
        if path is not None:
            self._load(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            _terminate_last_line(path)
            self._file = path.open("a", encoding="utf-8", errors="backslashreplace")

    def adopt(self, path: Path) -> None:
        """Take over what an earlier run has kept of the same prompts."""
        before = set(self._completions)
        self._load(path)
        for place, draw in sorted(set(self._completions) - before):
            self._append(place, draw, self._completions[place, draw])

    def prompt_id(self, place: int) -> str:
        """What a prompt is known by: its digest, and how many like it stand before."""
        return self._prompt_ids[place]

    def is_complete(self, place: int) -> bool:
        """Whether every completion of a prompt is there."""
        return all((place, draw) in self._completions for draw in range(self.samples))

    def missing(self) -> list[tuple[int, int]]:
        """The draws that are still to be made, by place."""
        every = ((place, draw) for place in range(len(self._prompt_ids)) for draw in range(self.samples))
        return [one for one in every if one not in self._completions]

    def add(self, place: int, draw: int, completion: Completion) -> None:
        """Keep a completion. One without a text is not written down: a later attempt asks again."""
        self._completions[place, draw] = completion
        if completion.text is not None:
            self._append(place, draw, completion)

    def all(self) -> list[list[Completion]]:
        return [
            [self._completions[place, draw] for draw in range(self.samples)]
            for place in range(len(self._prompt_ids))
        ]

    @property
    def count(self) -> int:
        return len(self._completions)

    @property
    def total(self) -> int:
        return len(self._prompt_ids) * self.samples

    def sync(self) -> None:
        """Bring what was added to the disk."""
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _append(self, place: int, draw: int, completion: Completion) -> None:
        if self._file is not None:
            line = {"prompt": self._prompt_ids[place], "draw": draw, **asdict(completion)}
            self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
            self._file.flush()

    def _load(self, path: Path) -> None:
        for line in _read_lines(path):
            place, draw = self._indices.get(line["prompt"]), line["draw"]
            if place is not None and draw < self.samples:
                self._completions[place, draw] = Completion(line["text"], line["tokens"], line["finish"])


def _assign_prompt_ids(prompts: Sequence[Prompt]) -> list[str]:
    """A name for each prompt that depends on it alone, and on how many of the same came before."""
    seen: Counter[str] = Counter()
    names: list[str] = []
    for prompt in prompts:
        found = digest(prompt)[:20]
        names.append(f"{found}-{seen[found]}")
        seen[found] += 1
    return names


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.endswith("\n"):
                try:
                    found = json.loads(line)
                except ValueError:
                    continue
                if isinstance(found, dict) and {"prompt", "draw", "text", "tokens", "finish"} <= found.keys():
                    yield found


def _terminate_last_line(path: Path) -> None:
    """End a line that was cut short, so that the next one begins on its own."""
    if path.exists() and path.stat().st_size:
        with path.open("rb+") as file:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
