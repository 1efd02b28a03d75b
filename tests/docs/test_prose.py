"""Tracked text files use plain technical English: words of the project's earlier prose style are rejected."""

import re
import subprocess
from pathlib import Path, PurePosixPath

import pytest

REPOSITORY = Path(__file__).parents[2]
SUFFIXES = {".py", ".md", ".yaml", ".jinja", ".toml"}
NAMES = {"Makefile", ".ci/run"}
# Exempt files and folders, each with the reason.
EXEMPT = {
    "requirements/": "generated locks of published packages",
    "tests/grading/cases/": "answers as models and textbooks write them",
    "recipes/data-factory/books/": "a story, the input data of a recipe",
    "recipes/data-factory/screenplays/": "a screenplay, the input data of a recipe",
}
# The words are joined from parts, so that this file passes its own check.
WORDS = ("to" + "ld", "me" + "nd", "me" + "nds", "me" + "nded", "me" + "nding", "an" + "ew")
PREFIXED_WORDS = ("fore" + "tell", "fore" + "tells")
PHRASES = ("is " + "wanted", "stands " + "under")
# A phrase may continue on the next line, as a comment or as a string.
_GAP = r"[\s#\"']+"
_CHOICES = "|".join([*WORDS, *PREFIXED_WORDS, *(phrase.replace(" ", _GAP) for phrase in PHRASES)])
PATTERN = re.compile(rf"\b(?:{_CHOICES})\b", re.IGNORECASE)


def text_files() -> list[str]:
    """The tracked and new text files, relative to the root of the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    return [
        name
        for name in listed
        if (PurePosixPath(name).suffix in SUFFIXES or name in NAMES or PurePosixPath(name).name == "Makefile")
        and not name.startswith(tuple(EXEMPT))
        and (REPOSITORY / name).is_file()
    ]


def occurrences(text: str) -> list[str]:
    """Each occurrence as `LINE: WORD`."""
    lines = [(text.count("\n", 0, found.start()) + 1, found[0]) for found in PATTERN.finditer(text)]
    return [f"{number}: {' '.join(word.split())}" for number, word in lines]


@pytest.mark.parametrize("word", [*WORDS, *PREFIXED_WORDS, *PHRASES])
def test_a_rejected_word_is_found(word: str) -> None:
    assert occurrences(f"a first line\nThe user {word.upper()} it.") == [f"2: {word.upper()}"]
    assert occurrences(f"re{word}ing, {word}_it, _{word}") == []


def test_a_phrase_is_found_across_lines() -> None:
    for gap in ("\n    ", "\n    # ", ' "\n        "'):
        assert len(occurrences(PHRASES[0].replace(" ", gap))) == 1


def test_the_exempt_paths_exist() -> None:
    assert [name for name in EXEMPT if not (REPOSITORY / name).is_dir()] == []


def test_this_file_is_checked() -> None:
    assert "tests/docs/test_prose.py" in text_files()


def test_no_file_uses_a_rejected_word() -> None:
    found = [
        f"{name}:{place}"
        for name in text_files()
        for place in occurrences((REPOSITORY / name).read_text(encoding="utf-8", errors="replace"))
    ]
    assert found == []
