"""How a product was made: an in-toto statement (v1) with a SLSA provenance predicate (v1).

docs/provenance.md describes the fields. Unlike other documents, a statement may have fields that this release
does not know: the specifications require that readers ignore them.
"""

import hashlib
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from posttrain.spec.canonical_json import Json, canonical_json
from posttrain.spec.document import Document
from posttrain.spec.document_reader import parse_document
from posttrain.spec.field_types import Items
from posttrain.spec.product_manifest import LaunchRecord, Sha256

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://slsa.dev/provenance/v1"
# A step of a recipe that made a product, and the publication of a recipe itself.
STEP_BUILD = "urn:posttrain:build:step:v1"
RECIPE_BUILD = "urn:posttrain:build:recipe:v1"
BUILDER_ID = "urn:posttrain:builder:v1"

_Text = Annotated[str, Field(max_length=4096)]
_Digests = Mapping[Annotated[str, Field(max_length=100)], _Text]


class _Part(Document):
    """A part of a statement, with the spelling of the specifications."""

    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, extra="ignore"
    )


class Subject(_Part):
    """What the statement is about: an artifact, or a file of a product."""

    name: _Text = Field(description="Repository of the artifact, or path of the file.")
    digest: _Digests = Field(description="SHA-256 of the content, under `sha256`.")


class Dependency(_Part):
    """An input of the build, as a resource descriptor."""

    name: _Text = Field(description="Kind and name: `model`, `dataset`, `file`, `image`, `stack` or `step`.")
    uri: _Text | None = Field(default=None, description="Package URL, if there is one.")
    digest: _Digests | None = Field(default=None, description="Digest of the content.")
    annotations: Mapping[str, Json] | None = Field(default=None, description="Details of a step.")


class RecipeIdentity(_Part):
    """The recipe artifact with its lock."""

    name: _Text = Field(description="Name of the recipe.")
    digest: _Digests = Field(description="Digest of the manifest of the recipe artifact.")


class ExternalParameters(_Part):
    """What the user of the build chose."""

    recipe: RecipeIdentity = Field(description="Recipe artifact.")
    step: _Text | None = Field(default=None, description="Id of the step that made the product.")
    profiles: Items[str] = Field(description="Profiles, in order.")
    settings: Items[str] = Field(description="Values of --set, in order.")


class InternalParameters(_Part):
    """What the compiler derived."""

    key: Sha256 = Field(description="Key of the product.")
    key_parts: Mapping[str, Sha256] = Field(description="Digest of each part of the key.")


class BuildDefinition(_Part):
    """What went into the build."""

    build_type: Literal["urn:posttrain:build:step:v1", "urn:posttrain:build:recipe:v1"] = Field(
        description="Kind of build."
    )
    external_parameters: ExternalParameters = Field(description="Recipe and selection.")
    internal_parameters: InternalParameters | None = Field(default=None, description="Key of a product.")
    resolved_dependencies: Items[Dependency] = Field(description="Entries of the lock, and earlier steps.")


class Builder(_Part):
    """Who built."""

    id: _Text = Field(default=BUILDER_ID, description="Identity: the holder of the signing key.")
    version: Mapping[str, str] = Field(description="Version of posttrain.")


class Metadata(_Part):
    """When it was built."""

    invocation_id: _Text | None = Field(default=None, description="Name of the run.")
    started_on: _Text | None = Field(default=None, description="Start of the step (RFC 3339, UTC).")
    finished_on: _Text | None = Field(default=None, description="End of the step.")


class RunDetails(_Part):
    """The execution of the build."""

    builder: Builder = Field(description="Program.")
    metadata: Metadata = Field(description="Run and times.")
    posttrain_launch: LaunchRecord | None = Field(
        default=None, alias="posttrain_launch", description="Launch of the step."
    )
    posttrain_hardware: Mapping[str, str] | None = Field(
        default=None, alias="posttrain_hardware", description="Hardware of the step."
    )


class Provenance(_Part):
    """The predicate."""

    build_definition: BuildDefinition = Field(description="Inputs.")
    run_details: RunDetails = Field(description="Execution.")


class Statement(_Part):
    """A product with its provenance."""

    TITLE: ClassVar[str] = "a provenance statement"
    ADVICE: ClassVar[str] = "ask its publisher for one of a supported release"

    type: Literal["https://in-toto.io/Statement/v1"] = Field(
        alias="_type", default=STATEMENT_TYPE, description="Version of the statement."
    )
    subject: Items[Subject] = Field(description="Artifact and files.")
    predicate_type: Literal["https://slsa.dev/provenance/v1"] = Field(
        default=PREDICATE_TYPE, description="Version of the predicate."
    )
    predicate: Provenance = Field(description="Provenance.")


def statement_to_json(statement: Statement) -> bytes:
    """The statement as canonical JSON, without absent fields."""
    return canonical_json(_without_nulls(statement.model_dump(by_alias=True))).encode()


def _without_nulls(value: Json) -> Json:
    """Only fields of the specifications are left out; the launch and annotations keep theirs."""
    if not isinstance(value, Mapping):
        return [_without_nulls(one) for one in value] if isinstance(value, list | tuple) else value
    return {
        name: inner if name in ("posttrain_launch", "annotations") else _without_nulls(inner)
        for name, inner in value.items()
        if inner is not None
    }


def statement_from_json(data: bytes) -> Statement:
    """Parse a statement. Raises `DocumentError`, with the fields that do not fit."""
    return parse_document(Statement, data)


def contents_digest(digests: Mapping[str, str]) -> str:
    """One digest of the files of a product: the SHA-256 of the canonical JSON of path and SHA-256."""
    return hashlib.sha256(canonical_json(dict(digests)).encode()).hexdigest()
