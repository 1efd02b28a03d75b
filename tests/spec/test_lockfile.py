"""The format of recipe.lock: it is canonical and easy to merge."""

import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.spec.lockfile import HEADER, LockfileError, format_lock, parse_lock, salvage_lock

words = st.text(min_size=1, max_size=12)
locks = st.dictionaries(st.tuples(words, words), words, max_size=8)


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
        ("# recipe.lock 2, from another time\n", 1, "another release"),
        ("<<<<<<< ours\n", 1, "merge conflict marker"),
        (f'{HEADER}\n["a", "b", "c"]\n<<<<<<< ours\n', 3, "merge conflict marker"),
        (f'{HEADER}\n["a", "b"]\n', 2, "not an entry"),
        (f'{HEADER}\n["a", "b", 1]\n', 2, "not an entry"),
        (f'{HEADER}\n["a", "b", "c"]\n["a", "b", "d"]\n', 3, "two lines have different values for the a `b`"),
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
