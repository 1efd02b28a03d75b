"""Calls git in a repository."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from posttrain.spec.record import record

# Git sets these for hooks. With them, it would not find the repository of a folder, or write its index.
_REPOSITORY_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")
# Files are compared as they are stored: a filter could download content or run any program.
_WITHOUT_LFS = (
    *("-c", "filter.lfs.smudge="),
    *("-c", "filter.lfs.process="),
    *("-c", "filter.lfs.required=false"),
)


class RevisionError(Exception):
    """A revision that cannot be read, with cause and advice."""


class MissingRevision(RevisionError):
    """A revision that the repository does not have."""


class GitFailed(RevisionError):
    """A call of git that failed, with the message of git."""


@record
class Repository:
    """A working tree of a git repository, by its top folder."""

    top: Path

    def git(self, *arguments: str, index: Path | None = None, given: str = "") -> str:
        """The output of git for the standard input `given`. With `index`, git uses that file instead of the
        repository's index."""
        extra = {} if index is None else {"GIT_INDEX_FILE": str(index)}
        return run_git(self.top, *arguments, extra=extra, given=given)

    def find_commit(self, revision: str) -> str | None:
        """The commit that a revision names; None if the repository does not have it."""
        try:
            name = f"{revision}^{{commit}}"
            return self.git("rev-parse", "--verify", "--quiet", "--end-of-options", name).strip()
        except GitFailed:
            return None

    def commit(self, revision: str) -> str:
        """The commit that a revision names. Raises `MissingRevision`."""
        found = self.find_commit(revision)
        if found is not None:
            return found
        if self.git("rev-parse", "--is-shallow-repository").strip() == "true":
            raise MissingRevision(
                f"this shallow clone has no revision `{revision}`; fetch it with"
                f" `git fetch --depth=1 origin {revision}`, or clone with the complete history"
            )
        raise MissingRevision(
            f"the repository at {self.top} has no revision `{revision}`; name a commit, tag or branch,"
            " such as origin/main, and fetch it if it is only on the remote"
        )

    def is_changed(self, folder: Path) -> bool:
        """Whether the working tree has changes in a folder that are not committed."""
        shown = self.git("status", "--porcelain", "--untracked-files=normal", "--", str(folder))
        return bool(shown.strip())


def find_repository(folder: Path) -> Repository:
    """The repository with a folder in its working tree. Raises `RevisionError`."""
    try:
        top = run_git(folder, "rev-parse", "--show-toplevel").removesuffix("\n")
    except GitFailed as error:
        raise RevisionError(
            f"{folder} is not in a git repository, which a comparison with a revision needs: {error}"
        ) from None
    return Repository(Path(top))


def run_git(folder: Path, *arguments: str, extra: Mapping[str, str] | None = None, given: str = "") -> str:
    kept = {name: value for name, value in os.environ.items() if name not in _REPOSITORY_VARIABLES}
    try:
        done = subprocess.run(
            ["git", *_WITHOUT_LFS, *arguments],
            cwd=folder,
            env={**kept, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", **(extra or {})},
            capture_output=True,
            check=False,
            input=given.encode("utf-8", "surrogateescape"),
        )
    except FileNotFoundError:
        raise RevisionError("git is not installed; a comparison with a revision needs it") from None
    if done.returncode:
        message = done.stderr.decode("utf-8", "replace").strip()
        raise GitFailed(message.removeprefix("fatal: ") or f"git {arguments[0]} failed")
    return done.stdout.decode("utf-8", "surrogateescape")
