"""What the compiler is given: text, and a way to read the files beside it."""

from collections.abc import Callable, Mapping
from dataclasses import field

from posttrain.spec.extension import Catalog
from posttrain.spec.keys import digest_bytes
from posttrain.spec.record import record


@record
class SourceFile:
    """A recipe file: the name that diagnostics print, and its bytes."""

    name: str
    data: bytes


# Reads a file beside the recipe by relative path; None when there is none.
ReadFile = Callable[[str], bytes | None]


@record(kw_only=True)
class CompileRequest:
    """All that a compilation depends on. The same request gives the same outcome, anywhere."""

    source: SourceFile
    catalog: Catalog
    read: ReadFile
    # The SHA-256 of a file beside the recipe, for those that are too large to be read at once.
    digest: Callable[[str], str | None] | None = None
    # Versions of the distributions that run the steps, by name.
    stack: Mapping[str, str] = field(default_factory=dict[str, str])
    # The first bytes of such a file.
    read_prefix: Callable[[str, int], bytes | None] | None = None
    profiles: tuple[str, ...] = ()
    # --set PATH=TEXT, in the order given.
    overrides: tuple[tuple[str, str], ...] = ()
    # The lock that the compilation goes by; None when revisions are taken as they are written.
    lock: SourceFile | None = None
    # Whether images may be named by a tag: to find out what the tags stand for, and not to run them.
    allow_image_tags: bool = False

    @property
    def is_unmodified(self) -> bool:
        """Whether nothing is laid over the recipe: a profile may leave things without a use."""
        return not self.profiles and not self.overrides

    def file_prefix(self, name: str, most: int) -> bytes | None:
        """A file's first bytes, or all where there are no more; None where there is no file."""
        if self.read_prefix is not None:
            return self.read_prefix(name, most)
        data = self.read(name)
        return None if data is None else data[:most]

    def file_digest(self, name: str) -> str | None:
        """A file's digest, or None where there is none."""
        if self.digest is not None:
            return self.digest(name)
        data = self.read(name)
        return None if data is None else digest_bytes(data)
