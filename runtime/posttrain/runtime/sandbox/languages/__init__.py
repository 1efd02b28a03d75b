"""The languages of programs: one file each, and one line here.

A file has `LANGUAGE`, of the class below. What the program may see of the disk, beside /usr, is listed
there; how a run of it ends is read there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Literal

from posttrain.runtime.sandbox.limits import RunResult, Verdict

_LANGUAGES = {
    "python": "posttrain.runtime.sandbox.languages.python_language",
}
LANGUAGE_NAMES = tuple(_LANGUAGES)

InputMode = Literal["stdin", "call"]


@dataclass(frozen=True, kw_only=True)
class Language:
    name: str
    # Folders that are needed beside /usr, and files beside the program's: name and content.
    read_folders: Callable[[], Sequence[str]]
    files: Callable[[], Mapping[str, bytes]]
    # The name of the program's own file.
    program_file: str
    # The command, from the folder with the files, how the input is given, and a descriptor. It must write
    # one byte there and close it just before the first line of the program runs: what ends earlier
    # is no fault of the program's.
    command: Callable[[str, InputMode, int], Sequence[str]]
    environment: Mapping[str, str]
    # What a status that is neither 0 nor a signal's means, with a word about it; never "passed".
    describe_failure: Callable[[RunResult], tuple[Verdict, str]]
    # Whether every input ends in this way: a program that does not compile is not run again.
    fails_for_every_input: Callable[[RunResult], bool]


def load_language(name: str) -> Language:
    found = import_module(_LANGUAGES[name]).LANGUAGE
    assert isinstance(found, Language)
    return found
