"""The entries of a lockfile as a document. `spec/lockfile.py` reads and writes its lines."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from posttrain.spec.document import Document
from posttrain.spec.field_types import Items
from posttrain.spec.product_manifest import Sha256

LOCK_FORMAT = 1
_DIGEST = "sha256:[0-9a-f]{64}"
_Name = Annotated[str, Field(min_length=1, max_length=4096)]


class RevisionEntry(Document):
    """The commit of a model or a dataset on the hub."""

    kind: Literal["model", "dataset"] = Field(description="What is on the hub.")
    name: _Name = Field(description="ORG/NAME@REVISION.")
    value: str = Field(pattern=r"^[0-9a-f]{40}$", description="Commit that the revision resolved to.")


class FileEntry(Document):
    """The digest of a file in the recipe's folder."""

    kind: Literal["file"] = Field(description="A file.")
    name: _Name = Field(description="Path relative to the recipe's folder.")
    value: Sha256 = Field(description="SHA-256 of its content.")


class ImageEntry(Document):
    """The digests of a container image."""

    kind: Literal["image"] = Field(description="A container image.")
    name: _Name = Field(description="NAME:TAG or NAME@DIGEST.")
    value: str = Field(
        pattern=rf"^({_DIGEST}|[^\s=]+={_DIGEST})( [^\s=]+={_DIGEST})*$",
        description="Digest of a tag, then the digest of each platform as OS/CPU=DIGEST.",
    )


class StackEntry(Document):
    """The version of an installed distribution."""

    kind: Literal["stack"] = Field(description="A distribution.")
    name: _Name = Field(description="Name of the distribution.")
    value: str = Field(pattern=r"^[!-~]{1,200}$", description="Version.")


LockEntry = Annotated[RevisionEntry | FileEntry | ImageEntry | StackEntry, Field(discriminator="kind")]


class LockDocument(Document):
    """The resolved versions of everything that a recipe names."""

    TITLE: ClassVar[str] = "a lockfile"
    FORMAT: ClassVar[int | None] = LOCK_FORMAT

    format: Literal[1] = Field(default=LOCK_FORMAT, description="Version of the format.")
    entries: Items[LockEntry] = Field(description="Entries, one on each line.")
