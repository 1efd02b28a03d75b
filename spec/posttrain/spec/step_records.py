"""The records of a step under way, which its client and its worker exchange as files.

The worker can run in a container with another release, and the code of a user can write into the folder.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from posttrain.spec.canonical_json import Json
from posttrain.spec.document import Document
from posttrain.spec.field_types import Items
from posttrain.spec.product_manifest import Cost, FileDigest, RecordDigests, RelativePath, Sha256

_RERUN_ADVICE = "run again: the step resumes from its last checkpoint, or starts over"


class Job(Document):
    """What a worker needs besides its step."""

    TITLE: ClassVar[str] = "the job of a worker"
    FORMAT: ClassVar[int | None] = 1
    FORMAT_REQUIRED: ClassVar[bool] = False
    ADVICE: ClassVar[str] = _RERUN_ADVICE

    attempt: int = Field(ge=1, description="Number of this attempt.")
    inputs: Mapping[str, str] = Field(description="Folders of the products that the step reads, by role.")
    files: Mapping[str, str] = Field(description="Copies of the user files that it reads, by role.")
    format: Literal[1] = Field(default=1, description="Version of the format.")


class Receipt(Document):
    """The declaration of a worker that its product is complete."""

    TITLE: ClassVar[str] = "the receipt of a step"
    FORMAT: ClassVar[int | None] = 1
    FORMAT_REQUIRED: ClassVar[bool] = False
    ADVICE: ClassVar[str] = _RERUN_ADVICE

    key: Sha256 = Field(description="Key of the step.")
    files: Mapping[RelativePath, FileDigest] = Field(description="Every file, by its path below `files/`.")
    record: RecordDigests
    facts: Mapping[str, Json] = Field(description="Results of the step, such as metrics and counts.")
    cost: Cost = Field(description="Time and peak memory of the step.")
    format: Literal[1] = Field(default=1, description="Version of the format.")
    checksum: Sha256 = Field(description="SHA-256 of the canonical JSON of all other fields.")


class Failure(Document):
    """The error with which a step ended."""

    TITLE: ClassVar[str] = "the failure of a step"
    FORMAT: ClassVar[int | None] = 1
    FORMAT_REQUIRED: ClassVar[bool] = False
    ADVICE: ClassVar[str] = "see `recipe logs STAGE`"

    message: str = Field(description="What failed and why.")
    advice: str = Field(description="What to do about it.")
    details: str = Field(
        default="", description="The lines of the user's code that failed, with the row and its values."
    )
    retriable: bool = Field(description="Whether another attempt can succeed.")
    cost: Cost = Field(default_factory=dict[str, float], description="Time and peak memory of the attempt.")
    format: Literal[1] = Field(default=1, description="Version of the format.")


class RankFailure(Failure):
    """The error with which one process of a step ended."""

    at: float = Field(
        description="When it failed: on the monotonic clock of the machine, with several nodes on the wall"
        " clock."
    )


class CheckpointFile(Document):
    """The digest of a file of a checkpoint."""

    xxh3: str = Field(pattern=r"^[0-9a-f]{32}$", description="XXH3 of the content, 128 bits.")


class CheckpointManifest(Document):
    """The declaration that a checkpoint is complete."""

    TITLE: ClassVar[str] = "the manifest of a checkpoint"
    FORMAT: ClassVar[int | None] = 1
    FORMAT_REQUIRED: ClassVar[bool] = False
    ADVICE: ClassVar[str] = "`recipe verify --repair` removes it; the step resumes from an earlier checkpoint"

    files: Mapping[RelativePath, CheckpointFile] = Field(description="Every file, by its relative path.")
    format: Literal[1] = Field(default=1, description="Version of the format.")
    checksum: Sha256 = Field(description="SHA-256 of the canonical JSON of all other fields.")


class ClusterAttempt(Document):
    """The attempt of a step on a cluster: what the program on the node needs besides the step."""

    TITLE: ClassVar[str] = "the attempt of a step on a cluster"
    FORMAT: ClassVar[int | None] = 1
    ADVICE: ClassVar[str] = _RERUN_ADVICE

    token: str = Field(
        pattern=r"^[0-9a-f]{16}$",
        description="Name of the attempt. A program of another attempt stops and writes nothing.",
    )
    job_name: str = Field(description="Name of the job, by which the next client finds it.")
    pool: str | None = Field(
        default=None, description="Pool of nodes that take such steps in turn; null if the job has one step."
    )
    release: str = Field(description="Release of posttrain that made the plan.")
    variables: Mapping[str, str] = Field(description="Environment variables of the client that travel.")
    secrets: bool = Field(description="Whether a file with the values of secrets belongs to the attempt.")
    preload: Items[str] = Field(default=(), description="Modules that later steps of the run import.")
    format: Literal[1] = Field(default=1, description="Version of the format.")


class ClusterClaim(Document):
    """The declaration of a job that it runs an attempt. The first one counts."""

    TITLE: ClassVar[str] = "the claim of a job"
    FORMAT: ClassVar[int | None] = 1
    ADVICE: ClassVar[str] = _RERUN_ADVICE

    job: str = Field(description="Id of the job.")
    node: str = Field(description="Name of the node.")
    format: Literal[1] = Field(default=1, description="Version of the format.")


class ClusterEnd(Document):
    """The end of an attempt, which the program on the node writes after the worker and its children ended."""

    TITLE: ClassVar[str] = "the end of an attempt"
    FORMAT: ClassVar[int | None] = 1
    ADVICE: ClassVar[str] = _RERUN_ADVICE

    status: int = Field(description="Exit status of the worker, negative for a signal.")
    terminated: bool = Field(description="Whether the engine sent SIGTERM to the job before.")
    format: Literal[1] = Field(default=1, description="Version of the format.")


class NodeBeat(Document):
    """The sign of life of a node, which its program renews every second."""

    TITLE: ClassVar[str] = "the sign of life of a node"
    ADVICE: ClassVar[str] = _RERUN_ADVICE

    node: str = Field(description="Name of the node, as the engine knows it.")
    beat: int = Field(ge=1, description="Counter of the signs of life.")


class NodeEnd(Document):
    """How the processes of a node ended. Node 0 has no such record: its end is that of the step."""

    TITLE: ClassVar[str] = "the end of a node"
    ADVICE: ClassVar[str] = _RERUN_ADVICE

    status: int = Field(description="Exit status of the worker of the node.")
    failure: RankFailure | None = Field(default=None, description="Its failure; null if it has none.")
    is_cause: bool = Field(
        default=False,
        description="Whether a process ended without an error, so that errors of others follow from it.",
    )


class ServerRequest(Document):
    """What the training requires of the vLLM server on a node of its own."""

    TITLE: ClassVar[str] = "the request for a vLLM server"
    ADVICE: ClassVar[str] = _RERUN_ADVICE

    max_model_len: int = Field(description="Maximum sequence length in tokens.")
    seed: int = Field(description="Random seed.")


class ServerAddress(Document):
    """Where the vLLM server of a step listens."""

    TITLE: ClassVar[str] = "the address of a vLLM server"
    ADVICE: ClassVar[str] = _RERUN_ADVICE

    url: str = Field(description="URL of the server.")
    group_port: int = Field(ge=1, le=65535, description="Port on which it receives weights.")
    client: str = Field(description="Address of the first node, as the server reaches it.")


class NodeAddress(Document):
    """Addresses of a node at which its processes or those of others can connect."""

    TITLE: ClassVar[str] = "the address of a node"
    ADVICE: ClassVar[str] = _RERUN_ADVICE

    addresses: Items[str] = Field(description="IPv4 addresses, the preferred one first.")
    port: int = Field(ge=0, le=65535, description="Port; 0 if the record is about addresses only.")
