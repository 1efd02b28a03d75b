"""The format of recipe.lock: it is canonical and easy to merge."""

import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.spec.lockfile import HEADER, LockfileError, format_lock, parse_lock, salvage_lock

COMMIT, SHA256 = "1" * 40, "2" * 64
words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
kinds = st.sampled_from(["model", "dataset", "file", "image", "stack"])
VALUES = {
    "model": [COMMIT, "3" * 40],
    "dataset": [COMMIT, "3" * 40],
    "file": [SHA256, "4" * 64],
    "image": [f"sha256:{SHA256} linux/amd64=sha256:{SHA256}", f"linux/arm64/v8=sha256:{SHA256}"],
    "stack": ["2.13.0+cu130", "1!2rc1"],
}


@st.composite
def locks_of_valid_entries(draw: st.DrawFn) -> dict[tuple[str, str], str]:
    names = draw(st.lists(st.tuples(kinds, words), max_size=8))
    return {id: draw(st.sampled_from(VALUES[id[0]])) for id in names}


locks = locks_of_valid_entries()


@given(locks)
def test_what_is_written_is_read(values: dict[tuple[str, str], str]) -> None:
    assert parse_lock(format_lock(values)).values == values


@given(locks)
def test_the_same_entries_give_the_same_text(values: dict[tuple[str, str], str]) -> None:
    assert format_lock(dict(reversed(values.items()))) == format_lock(values)


@given(locks, locks)
def test_the_lines_of_two_locks_make_one_or_are_refused(
    left: dict[tuple[str, str], str], right: dict[tuple[str, str], str]
) -> None:
    both = format_lock(left) + format_lock(right)
    if all(right.get(id, value) == value for id, value in left.items()):
        assert parse_lock(both).values == left | right
    else:
        with pytest.raises(LockfileError, match="different values"):
            parse_lock(both)
    agreed = {id: v for id, v in (left | right).items() if left.get(id, v) == v and right.get(id, v) == v}
    assert salvage_lock(both).values == agreed


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    salvage_lock(text)
    with suppress(LockfileError):
        assert parse_lock(f"{HEADER}\n{text}").values == salvage_lock(text).values


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "its first line has no"),
        ('["stack", "torch", "2"]\n', 1, "its first line has no"),
        ("# recipe.lock 2, from another time\n", 1, "format 2 of a newer release"),
        ("# recipe.lock 0, from another time\n", 1, "format 0 of an older release"),
        ("<<<<<<< ours\n", 1, "merge conflict marker"),
        (f'{HEADER}\n["stack", "b", "1"]\n<<<<<<< ours\n', 3, "merge conflict marker"),
        (f'{HEADER}\n["a", "b", "c"]\n', 2, "the kind must be one of 'model'"),
        (f'{HEADER}\n["stack", "b", "1"]\n["model", "org/a@main", "main"]\n', 3, "`value`: the text"),
        (f'{HEADER}\n["file", "a.txt", "{COMMIT}"]\n', 2, "`value`: the text"),
        (f'{HEADER}\n["image", "it:1", "latest"]\n', 2, "`value`: the text"),
        (f'{HEADER}\n["stack", "torch", "1 \\n--index-url=x"]\n', 2, "`value`: the text"),
        (f'{HEADER}\n["stack", "", "1"]\n', 2, "`name`: must have at least 1 character"),
        (f'{HEADER}\n["stack", "\\ud800", "1"]\n', 2, "`name`"),
        (f'{HEADER}\n["a", "b"]\n', 2, "not an entry"),
        (f'{HEADER}\n["a", "b", 1]\n', 2, "not an entry"),
        (f'{HEADER}\n["stack", "b", "1"]\n["stack", "b", "2"]\n', 3, "different values for the stack `b`"),
        (f"{HEADER}\n{'[' * 100_000}\n", 2, "not an entry"),
    ],
)
def test_what_is_no_lock_is_refused_with_its_line(text: str, line: int, message: str) -> None:
    with pytest.raises(LockfileError, match=message) as found:
        parse_lock(text)
    assert found.value.line == line


def test_git_merges_what_two_branches_add(tmp_path: Path) -> None:
    """Both add an entry at the same place, and one changes a third. The merge has no conflicts."""
    first = {("stack", "torch"): "2.13", ("stack", "trl"): "1.16"}
    ours = first | {("model", "org/a@main"): "1" * 40}
    theirs = first | {("model", "org/b@main"): "2" * 40, ("stack", "trl"): "1.17"}

    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout

    def commit(values: dict[tuple[str, str], str]) -> None:
        (tmp_path / "recipe.lock").write_text(format_lock(values))
        git("add", "-A")
        git("commit", "-qm", "lock")

    git("init", "-q", "-b", "ours")
    (tmp_path / ".gitattributes").write_text("*.lock merge=union\n")
    commit(first)
    git("checkout", "-qb", "theirs")
    commit(theirs)
    git("checkout", "-q", "ours")
    commit(ours)
    git("merge", "-q", "theirs", "-m", "merge")
    assert parse_lock((tmp_path / "recipe.lock").read_text()).values == ours | theirs
