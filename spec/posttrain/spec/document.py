"""Base class of the records that cross a trust boundary: plans, receipts, manifests."""

from pydantic import BaseModel, ConfigDict


class Document(BaseModel):
    """A record with a fixed set of fields. Files can be damaged or hostile, so every field is checked."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        defer_build=True,
        protected_namespaces=(),
        # In the schema of what is written, every field is present.
        json_schema_serialization_defaults_required=True,
    )
