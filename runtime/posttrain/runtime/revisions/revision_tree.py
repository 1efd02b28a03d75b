"""Writes the folder of a recipe at a revision into a temporary folder.

A recipe reads only files in its own folder, so that folder is complete. A temporary index and `git
checkout-index` write it as a checkout would: `git archive` leaves out files with the attribute export-ignore.
"""

import tempfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from posttrain.runtime.revisions.git_repository import GitFailed, Repository, find_repository
from posttrain.runtime.revisions.lfs_pointers import fill_pointers
from posttrain.spec.record import record

_SUBMODULE_MODE = "160000"


@record(kw_only=True)
class RevisionTree:
    """The folder of a recipe at a revision."""

    commit: str
    # The recipe file in the temporary folder; None if the revision has no such recipe.
    recipe: Path | None
    # The name of the recipe at the revision, from the top of the repository, if it had another one.
    renamed_from: str | None = None
    # Why files below these paths, relative to the recipe's folder, have no content.
    unavailable: Mapping[str, str]
    # Whether the working tree has changes in the recipe's folder that are not committed.
    dirty: bool


@contextmanager
def recipe_at_revision(recipe: Path, revision: str) -> Generator[RevisionTree]:
    """The folder of a recipe file at a revision of its repository. Raises `RevisionError`."""
    file = recipe.parent.resolve() / recipe.name
    repository = find_repository(file.parent)
    commit = repository.commit(revision)
    dirty = repository.is_changed(file.parent)
    name = file.relative_to(repository.top.resolve()).as_posix()
    old = name if _has_file(repository, commit, name) else _name_before_rename(repository, commit, name)
    if old is None:
        yield RevisionTree(commit=commit, recipe=None, unavailable={}, dirty=dirty)
        return
    with tempfile.TemporaryDirectory(prefix="recipe-revision-") as scratch:
        tree = Path(scratch) / "tree"
        unavailable = dict(_write_folder(repository, commit, Path(old).parent, tree, file.parent))
        yield RevisionTree(
            commit=commit,
            recipe=tree / old,
            renamed_from=None if old == name else old,
            unavailable=unavailable,
            dirty=dirty,
        )


def _has_file(repository: Repository, commit: str, name: str) -> bool:
    entry = repository.git("ls-tree", "-z", "--full-tree", commit, "--", f":(literal){name}")
    return entry.split(" ")[1:2] == ["blob"]


def _name_before_rename(repository: Repository, commit: str, name: str) -> str | None:
    """The name of a file at a commit, if git finds that it was renamed since then."""
    shown = repository.git("diff", "-z", "--find-renames", "--diff-filter=R", "--name-status", commit, "--")
    fields = shown.split("\0")  # status, old name, new name
    names = zip(fields[1::3], fields[2::3], strict=False)
    return next((old for old, new in names if new == name), None)


def _write_folder(
    repository: Repository, commit: str, folder: Path, target: Path, current: Path
) -> Iterator[tuple[str, str]]:
    """Write a folder of a commit below `target`, at its path in the repository. Yield the paths in the folder
    without content, and why.

    `current` is the folder of the working tree that can have the content of LFS files.
    """
    with tempfile.TemporaryDirectory(prefix="recipe-index-") as scratch:
        index = Path(scratch) / "index"
        repository.git("read-tree", commit, index=index)
        inside = [] if folder == Path() else [f":(top,literal){folder.as_posix()}"]
        entries = repository.git("ls-files", "-z", "--stage", "--", *inside, index=index).split("\0")
        modes = {name: info for info, _, name in (one.partition("\t") for one in entries if one)}
        names = "".join(f"{name}\0" for name in modes)
        prefix = f"--prefix={target.as_posix()}/"
        repository.git("checkout-index", "-z", "--stdin", prefix, index=index, given=names)
    (target / folder).mkdir(parents=True, exist_ok=True)
    for name in fill_pointers(repository, target / folder, current):
        yield name, f"a Git LFS pointer; fetch its content with `git lfs fetch origin {commit[:12]}`"
    for name, info in modes.items():
        mode, submodule_commit, _ = info.split(" ")
        if mode == _SUBMODULE_MODE:
            inner = Path(name).relative_to(folder).as_posix()
            yield from _write_submodule(submodule_commit, inner, target / folder, current)


def _write_submodule(commit: str, name: str, target: Path, current: Path) -> Iterator[tuple[str, str]]:
    """Write the files of a submodule, from its repository in the working tree."""
    checkout = current / name
    try:
        repository = find_repository(checkout) if checkout.is_dir() else None
    except GitFailed:
        repository = None
    is_checked_out = repository is not None and repository.top.resolve() == checkout.resolve()
    if repository is None or not is_checked_out or repository.find_commit(commit) is None:
        why = f"a submodule whose commit {commit[:12]} is not here; run `git submodule update --init {name}`"
        yield name, why + " at the revision, or fetch the commit in the submodule"
        return
    for inner, why in _write_folder(repository, commit, Path(), target / name, checkout):
        yield f"{name}/{inner}", why
