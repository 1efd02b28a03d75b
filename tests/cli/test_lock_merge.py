"""Lock files in git: different entries merge automatically, and contradictions are reported."""

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.conftest import require_service
from tests.recipe_command import run_command

from posttrain.spec.lockfile import LockfileError, parse_lock, salvage_lock

FILES = {f"{name}.txt": name for name in "abcdefgh"}


class Repository:
    """A git repository with a recipe whose only stage reads files."""

    def __init__(self, path: Path, union: bool) -> None:
        self.path, self.lock = path, path / "recipe.lock"
        require_service("git", shutil.which("git"), "apt-get install git")
        self.git("init", "--quiet", "--initial-branch", "main")
        for name, text in FILES.items():
            (path / name).write_text(text)
        if union:
            (path / ".gitattributes").write_text("*.lock merge=union\n")

    def git(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        who = ["-c", "user.name=tester", "-c", "user.email=tester@localhost"]
        command = ["git", "-C", str(self.path), *who, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def write(self, *read: str) -> None:
        """Write a recipe with these files, lock it and commit it."""
        files = "".join(f"\n      - {name}" for name in read)
        text = f"recipe: 1\nname: it\nstages:\n  look:\n    script: [sh, -c, exit]\n    files:{files}\n"
        (self.path / "recipe.yaml").write_text(text)
        locked = run_command("lock", self.path)
        assert locked.returncode == 0, locked.stderr
        self.git("add", "--all")
        assert self.git("commit", "--quiet", "--message", "locked").returncode == 0

    def branch(self, name: str, *read: str) -> None:
        self.git("switch", "--quiet", "--create", name, "main")
        self.write(*read)

    def merge(self, name: str) -> bool:
        """Merge a branch, with our version of the recipe; return whether the lock has no conflict."""
        ended = self.git("merge", "--no-edit", name)
        self.git("checkout", "--ours", "recipe.yaml")
        return "conflict in recipe.lock" not in ended.stdout

    def names(self) -> list[str]:
        return sorted(name for kind, name in parse_lock(self.lock.read_text()).values if kind == "file")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    found = Repository(tmp_path, union=True)
    found.write("b.txt", "e.txt")
    return found


def test_an_entry_is_a_line_and_the_lines_are_sorted(repository: Repository) -> None:
    lines = repository.lock.read_text().splitlines()[1:]
    assert lines == sorted(lines)
    assert len(lines) == len(parse_lock(repository.lock.read_text()).values)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (("a.txt",), ("h.txt",)),
        (("c.txt",), ("d.txt",)),
        (("c.txt", "d.txt"), ("d.txt", "f.txt")),
    ],
    ids=["far apart", "side by side", "in part the same"],
)
def test_what_two_branches_add_merges(
    repository: Repository, ours: tuple[str, ...], theirs: tuple[str, ...]
) -> None:
    repository.branch("theirs", "b.txt", "e.txt", *theirs)
    repository.branch("ours", "b.txt", "e.txt", *ours)
    assert repository.merge("theirs")
    assert repository.names() == sorted({"b.txt", "e.txt", *ours, *theirs})


def test_obsolete_entries_are_reported_and_removed(repository: Repository) -> None:
    repository.branch("theirs", "b.txt", "e.txt", "c.txt")
    repository.branch("ours", "b.txt")
    assert repository.merge("theirs")
    assert run_command("lock", repository.path, "--check").returncode == 1
    assert run_command("lock", repository.path).returncode == 0
    assert repository.names() == ["b.txt"]


def test_contradictions_are_reported_with_the_line(repository: Repository) -> None:
    (repository.path / "e.txt").write_text("one")
    repository.branch("theirs", "b.txt", "e.txt")
    repository.git("switch", "--quiet", "main")
    (repository.path / "e.txt").write_text("another")
    repository.branch("ours", "b.txt", "e.txt")
    repository.git("merge", "--no-edit", "--strategy-option", "ours", "theirs")
    text = repository.lock.read_text()
    with pytest.raises(LockfileError, match=r"different values for the file `e\.txt`"):
        parse_lock(text)
    assert ("file", "b.txt") in salvage_lock(text).values
    checked = run_command("lock", repository.path, "--check")
    assert checked.returncode == 1
    assert "recipe.lock:" in checked.stderr
    assert run_command("lock", repository.path).returncode == 0
    assert repository.names() == ["b.txt", "e.txt"]


def test_without_the_attribute_a_conflict_is_reported(tmp_path: Path) -> None:
    repository = Repository(tmp_path, union=False)
    repository.write("b.txt", "e.txt")
    repository.branch("theirs", "b.txt", "e.txt", "d.txt")
    repository.branch("ours", "b.txt", "e.txt", "c.txt")
    assert not repository.merge("theirs")
    checked = run_command("lock", repository.path, "--check")
    assert checked.returncode == 1
    assert "merge conflict marker" in checked.stderr
    assert run_command("lock", repository.path).returncode == 0
    assert repository.names() == ["b.txt", "c.txt", "e.txt"]
