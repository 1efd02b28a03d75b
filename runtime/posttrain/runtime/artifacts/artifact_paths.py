"""Checks the paths of the files in an artifact, which anyone can have written."""

import unicodedata
from collections.abc import Iterable

from posttrain.runtime.registry.registry_errors import ContentError

_MAX_PATH_BYTES = 1024
_MAX_PART_BYTES = 255
_MAX_SHOWN = 100
# In the folder of a recipe that `recipe pull` has written: where it comes from.
ORIGIN_FILE = ".pulled.json"
# Programs would execute, believe or overwrite what is in these. Windows calls `.git` `git~1` too.
_RESERVED = (".git", "git~1", ".recipe", ORIGIN_FILE)
_ADVICE = "do not use this artifact; tell its publisher"


def check_paths(paths: Iterable[str]) -> None:
    """Raise `ContentError` for a path that would leave the folder, or replace another file."""
    folded: dict[str, str] = {}
    folders: dict[str, str] = {}
    for path in paths:
        if problem := path_problem(path):
            raise ContentError(f"the artifact has a file `{shown(path)}`, which {problem}", _ADVICE)
        name = _fold(path)
        if name in folded:
            other = shown(folded[name])
            how = "twice" if path == folded[name] else f"and `{other}`, which are the same on some systems"
            raise ContentError(f"the artifact has the file `{shown(path)}` {how}", _ADVICE)
        folded[name] = path
        parts = name.split("/")
        folders.update({"/".join(parts[:end]): path for end in range(1, len(parts))})
    for name, path in folded.items():
        if name in folders:
            message = f"the artifact has `{shown(path)}` as a file and as a folder"
            raise ContentError(message, _ADVICE)


def path_problem(path: str) -> str:
    """What is wrong with a path, as the end of a sentence; empty for a good one."""
    parts = path.split("/")
    problems = {
        "has no name": not path,
        "is an absolute path": path.startswith("/") or path[1:2] == ":",
        "leaves its folder": ".." in parts,
        "contains a backslash": "\\" in path,
        "contains a colon": ":" in path,
        "contains characters that are not printable": not path.isprintable(),
        "has an empty part": "" in parts or "." in parts,
        "is too long": len(path.encode("utf-8", "surrogatepass")) > _MAX_PATH_BYTES
        or any(len(part.encode("utf-8", "surrogatepass")) > _MAX_PART_BYTES for part in parts),
        "has a reserved name": any(_fold(part) in _RESERVED for part in parts),
        "ends with a dot or a space": any(part != part.rstrip(". ") for part in parts if part.strip(".")),
    }
    return next((problem for problem, found in problems.items() if found), "")


def shown(path: str) -> str:
    """A path for a message."""
    text = "".join(char if char.isprintable() else "?" for char in path[:_MAX_SHOWN])
    return text if len(path) <= _MAX_SHOWN else f"{text}..."


def _fold(path: str) -> str:
    """Equal for paths that are the same file on a system that ignores case or normalizes Unicode."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
