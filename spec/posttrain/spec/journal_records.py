"""The records of a run's journal, as `recipe verify` checks them."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from posttrain.spec.canonical_json import Json
from posttrain.spec.document import Document
from posttrain.spec.product_manifest import Cost, Sha256

_STATES = Literal[
    "waiting", "cached", "running", "done", "failed", "interrupted", "held", "blocked", "skipped"
]


class JournalStep(Document):
    """The row of one step. SQLite accepts a value of any type in every column."""

    TITLE: ClassVar[str] = "a row of a journal"

    id: str = Field(description="Id of the step.")
    key: Sha256 = Field(description="Key of its product.")
    state: _STATES = Field(description="State of the step.")
    reason: str = Field(description="Why it is in that state; empty if that is obvious.")
    advice: str = Field(description="What to do about a failure; else empty.")
    attempt: int = Field(ge=0, description="Number of the last attempt; 0 before the first.")
    began: float | None = Field(description="Start of the last attempt, in seconds since the epoch.")
    ended: float | None = Field(description="End of the step, in seconds since the epoch.")
    cost: Cost = Field(description="Time and peak memory of the step.")
    facts: Mapping[str, Json] = Field(description="Results of the step.")
    estimate: Mapping[str, Json] = Field(description="Time and memory that the plan estimated.")
