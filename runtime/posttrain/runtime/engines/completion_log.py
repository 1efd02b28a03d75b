"""An append-only log of completions, one line each, from which a killed step resumes.

A line identifies its prompt by a digest, and has the sample number and a checksum. An incomplete or damaged
line is ignored.
"""

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from posttrain.runtime.chat_prompts import Prompt, prompt_json
from posttrain.spec.document_json import has_valid_checksum, json_checksum
from posttrain.spec.keys import digest


@dataclass(frozen=True, slots=True)
class Completion:
    # None if the request failed.
    text: str | None
    # The number of tokens, if the model or the server reports it.
    tokens: int | None
    # "stop" at the end of the sequence or a stop string, "length" if truncated, "timeout" or "error" if the
    # request failed, or another reason as the server reports it.
    finish: str
    # Why the request failed.
    error: str | None = None


class CompletionLog:
    """The completions of one generation request, in a file if a path is given."""

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
        """Copy the completions of the same prompts from the log of an earlier run."""
        before = set(self._completions)
        self._load(path)
        for place, draw in sorted(set(self._completions) - before):
            self._append(place, draw, self._completions[place, draw])

    def prompt_id(self, place: int) -> str:
        """The id of a prompt: its digest, and the number of equal prompts before it."""
        return self._prompt_ids[place]

    def is_complete(self, place: int) -> bool:
        """Whether the log has every completion of a prompt."""
        return all((place, draw) in self._completions for draw in range(self.samples))

    def missing(self) -> list[tuple[int, int]]:
        """The missing completions, as pairs of prompt index and sample number."""
        pairs = ((place, draw) for place in range(len(self._prompt_ids)) for draw in range(self.samples))
        return [pair for pair in pairs if pair not in self._completions]

    def add(self, place: int, draw: int, completion: Completion) -> None:
        """Add a completion. A failed one is not written to the file, so that a later attempt retries it."""
        self._completions[place, draw] = completion
        if completion.text is not None:
            self._append(place, draw, completion)

    def entries(self) -> dict[tuple[int, int], Completion]:
        """The completions so far, by prompt index and sample number."""
        return dict(self._completions)

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
        """Flush the file to disk."""
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _append(self, place: int, draw: int, completion: Completion) -> None:
        if self._file is not None:
            line = {"prompt": self._prompt_ids[place], "draw": draw, **asdict(completion)}
            line["checksum"] = json_checksum(line)
            self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
            self._file.flush()

    def _load(self, path: Path) -> None:
        for line in _read_lines(path):
            place, draw = self._indices.get(line["prompt"]), line["draw"]
            if place is not None and draw < self.samples:
                self._completions[place, draw] = Completion(line["text"], line["tokens"], line["finish"])


def _assign_prompt_ids(prompts: Sequence[Prompt]) -> list[str]:
    """An id for each prompt, from its digest and the number of equal prompts before it."""
    seen: Counter[str] = Counter()
    ids: list[str] = []
    for prompt in prompts:
        short_digest = digest(prompt_json(prompt))[:20]
        ids.append(f"{short_digest}-{seen[short_digest]}")
        seen[short_digest] += 1
    return ids


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.endswith("\n"):
                try:
                    entry = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if isinstance(entry, dict) and has_valid_checksum(cast(dict[str, Any], entry)):
                    yield cast(dict[str, Any], entry)


def _terminate_last_line(path: Path) -> None:
    """Terminate an incomplete last line, so that the next entry starts on a new line."""
    if path.exists() and path.stat().st_size:
        with path.open("rb+") as file:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
