"""A log of the tokens that a step uses at endpoints: one line for each response, in the record of the step.

A resumed step appends to the log of its earlier attempts, whose tokens were billed as well. The processes of
a step write to the same file: a line is a single write in append mode.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from posttrain.runtime.engines.providers import TokenUsage

USAGE_FILE = "api_usage.jsonl"


@dataclass(frozen=True)
class UsageLog:
    path: Path
    # The name of the endpoint in the recipe.
    endpoint: str

    def add(self, usage: TokenUsage | None) -> None:
        """Add a response. Without token counts of the provider, only the request is counted."""
        line = {"endpoint": self.endpoint, **(asdict(usage) if usage else {})}
        data = (json.dumps(line) + "\n").encode()
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(descriptor, data)
        finally:
            os.close(descriptor)


@dataclass(kw_only=True)
class EndpointUsage:
    """The requests and tokens of one endpoint in a step."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    # The requests without token counts.
    uncounted: int = 0

    def add(self, line: Mapping[str, Any]) -> None:
        self.requests += 1
        counts = [line.get(name) for name in ("input_tokens", "output_tokens")]
        if not all(isinstance(count, int) for count in counts):
            self.uncounted += 1
            return
        self.input_tokens += line["input_tokens"]
        self.output_tokens += line["output_tokens"]


def read_usage(path: Path) -> dict[str, EndpointUsage]:
    """The usage of each endpoint, by name. Incomplete lines are ignored."""
    found: dict[str, EndpointUsage] = {}
    if not path.exists():
        return found
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict) and isinstance(entry.get("endpoint"), str):
                found.setdefault(entry["endpoint"], EndpointUsage()).add(entry)
    return found
