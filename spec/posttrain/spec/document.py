"""Base class of the records that cross a trust boundary: plans, manifests, receipts."""

from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class Document(BaseModel):
    """A record with a fixed set of fields. Files can be damaged or hostile, so every field is checked."""

    # What messages call it, and what to do about an invalid one.
    TITLE: ClassVar[str] = "a document"
    ADVICE: ClassVar[str] = ""
    # The version of the format; None for a part of another document.
    FORMAT: ClassVar[int | None] = None
    # Whether files without a number are invalid. Those of the first format can lack it.
    FORMAT_REQUIRED: ClassVar[bool] = True

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        defer_build=True,
        protected_namespaces=(),
        allow_inf_nan=False,
        # In the schema of what is written, every field is present.
        json_schema_serialization_defaults_required=True,
    )
