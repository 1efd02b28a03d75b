"""The inputs of a compilation: the recipe's text, a catalog, and access to files in the recipe's folder."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from posttrain.spec.extension import Catalog
from posttrain.spec.keys import digest_bytes
from posttrain.spec.record import record


@record
class SourceFile:
    """A recipe file: its name in diagnostics, and its bytes."""

    name: str
    data: bytes


# Reads a file in the recipe's folder by relative path; returns None if it does not exist.
ReadFile = Callable[[str], bytes | None]


@record
class ExtendedArtifact:
    """A recipe in a registry that another one extends: its recipe file, and access to its files."""

    source: SourceFile
    read: ReadFile


# Fetches the artifact of a reference with a digest; returns the reason if that is not possible.
ReadArtifact = Callable[[str], ExtendedArtifact | str]


@record(kw_only=True)
class CompileRequest:
    """Everything that a compilation depends on. Equal requests have equal results on every machine."""

    source: SourceFile
    catalog: Catalog
    read: ReadFile
    # The SHA-256 of a file in the recipe's folder that is too large to load.
    digest: Callable[[str], str | None] | None = None
    # The artifacts that `extends` names. Their files are found by `read` and `digest` afterwards.
    read_artifact: ReadArtifact | None = None
    # Versions of the distributions that run the steps, by name.
    stack: Mapping[str, str] = field(default_factory=dict[str, str])
    # The first bytes of such a large file.
    read_prefix: Callable[[str, int], bytes | None] | None = None
    # Why a file that exists cannot be read, for example "is a folder"; None if it does not exist.
    read_problem: Callable[[str], str | None] | None = None
    # The paths of the files next to a path, to suggest one of them if it does not exist.
    neighbors: Callable[[str], Sequence[str]] | None = None
    profiles: tuple[str, ...] = ()
    # Whether to check the recipe without a profile and with each of its profiles too. The plan is that of
    # `profiles`.
    check_profiles: bool = False
    # Whether the result needs a plan.
    needs_plan: bool = True
    # --set PATH=TEXT, in the order given.
    overrides: tuple[tuple[str, str], ...] = ()
    # The lockfile to enforce; None to use revisions as written.
    lock: SourceFile | None = None
    # Whether image tags are accepted: `recipe lock` resolves them, but a run needs digests.
    allow_image_tags: bool = False

    @property
    def is_unmodified(self) -> bool:
        """Whether there are no profiles and overrides, which can leave declarations unused."""
        return not self.profiles and not self.overrides

    def problem_with(self, name: str) -> str | None:
        """Why `read` has no content for a file that exists; None if it does not exist."""
        return self.read_problem(name) if self.read_problem is not None else None

    def files_near(self, name: str) -> Sequence[str]:
        """The paths of the files in the same folder."""
        return self.neighbors(name) if self.neighbors is not None else ()

    def file_prefix(self, name: str, most: int) -> bytes | None:
        """The first bytes of a file; None if it does not exist."""
        if self.read_prefix is not None:
            return self.read_prefix(name, most)
        data = self.read(name)
        return None if data is None else data[:most]

    def file_digest(self, name: str) -> str | None:
        """The digest of a file; None if it does not exist."""
        if self.digest is not None:
            return self.digest(name)
        data = self.read(name)
        return None if data is None else digest_bytes(data)
