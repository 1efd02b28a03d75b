"""The manifest of a product: its files with their digests, and how it was made."""

from collections.abc import Mapping
from operator import not_
from typing import Annotated, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from posttrain.spec.canonical_json import Json
from posttrain.spec.document import Document
from posttrain.spec.field_types import Items

# A relative path without `.` and `..`, so that no manifest names a file outside its product.
_PART = r"([^./\x00][^/\x00]*|\.[^./\x00][^/\x00]*|\.\.[^/\x00]+)"
RelativePath = Annotated[str, Field(pattern=f"^{_PART}(/{_PART})*$", max_length=4096)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
# The cost of a step: `seconds`, `cpu_seconds`, `peak_memory_mb`, `peak_gpu_mb`.
Cost = Mapping[str, Annotated[float, Field(ge=0)]]


class FileDigest(Document):
    """The size and the digest of a file of a product."""

    size: int = Field(ge=0, description="Size in bytes.")
    sha256: Sha256 = Field(description="SHA-256 of the content.")


# Digests of files of a record, by name; omitted when there are none.
RecordDigests = Annotated[
    Mapping[RelativePath, FileDigest],
    Field(
        default_factory=dict[str, FileDigest],
        exclude_if=not_,
        description="Files below `record/` that later steps read: the step as its worker got it. Omitted if"
        " an earlier release made the product.",
    ),
]


class LaunchRecord(Document):
    """The launch that produced a product."""

    nodes: int = Field(ge=1, description="Number of machines.")
    processes: int = Field(ge=1, description="Number of processes.")
    strategy: str = Field(description="Parallelism strategy, as in the plan.")
    engine: str | None = Field(description="Generation engine; null if the step does not generate.")
    micro_batch_size: int | None = Field(
        description="Micro-batch size of a training; null if the batch was not divided."
    )


class Adoption(Document):
    """An older product that `recipe adopt` accepted for another key."""

    model_config = ConfigDict(serialize_by_alias=True)

    from_: Sha256 = Field(alias="from", description="Key of the step that made the product.")
    differs: Items[str] = Field(description="Differing parts of the keys: environment, extensions.")
    because: str = Field(description="Reason that the user gave.")
    at: int = Field(description="When it was adopted, in seconds since the epoch.")


class Manifest(Document):
    """What a product consists of and how it was made."""

    TITLE: ClassVar[str] = "the manifest of a product"
    FORMAT: ClassVar[int | None] = 2
    ADVICE: ClassVar[str] = "`recipe verify --repair` moves the product aside; the next run makes it again"

    format: Literal[2] = Field(description="Version of the format.")
    key: Sha256 = Field(description="Key of the product, which is the name of its folder.")
    step: str = Field(description="Id of the step that made it.")
    kind: str = Field(description="Kind of that step.")
    key_parts: Mapping[str, Sha256] = Field(description="Digest of each part of the key.")
    key_values: Mapping[str, Json] = Field(description="Values behind the digests.")
    files: Mapping[RelativePath, FileDigest] = Field(description="Every file, by its path below `files/`.")
    record: RecordDigests
    facts: Mapping[str, Json] = Field(description="Results of the step, such as metrics and counts.")
    cost: Cost = Field(description="Time and peak memory of the step.")
    launch: LaunchRecord = Field(description="How the step was launched.")
    adopted: Adoption | None = Field(default=None, description="Origin of an adopted product, or null.")
    checksum: Sha256 = Field(description="SHA-256 of the canonical JSON of all other fields.")

    @model_validator(mode="after")
    def _check_verdict(self) -> Self:
        """The verdict of a gate decides what runs."""
        if self.kind == "gate" and self.facts.get("verdict") not in ("pass", "fail", "inconclusive"):
            raise ValueError("`facts.verdict`: must be pass, fail or inconclusive")
        return self
