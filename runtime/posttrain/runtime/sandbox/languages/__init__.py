"""The supported programming languages. A language is one file, and one line in the table below.

The file defines `LANGUAGE`, an instance of `Language`. It lists the folders that a program may read in
addition to /usr, and interprets the exit status of a run.
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
    # Folders that a program needs in addition to /usr, and files (name and content) in the program's folder.
    read_folders: Callable[[], Sequence[str]]
    files: Callable[[], Mapping[str, bytes]]
    # The name of the file with the program.
    program_file: str
    # The command for a folder with the files, an input mode and a file descriptor. Just before the first line
    # of the program runs, the command must write one byte to the descriptor and close it. An exit before
    # that is an error of the sandbox, not of the program.
    command: Callable[[str, InputMode, int], Sequence[str]]
    environment: Mapping[str, str]
    # The verdict and the reason for an exit status that is neither 0 nor a signal; never "passed".
    describe_failure: Callable[[RunResult], tuple[Verdict, str]]
    # Whether every input has this result. A program that does not compile is not run again.
    fails_for_every_input: Callable[[RunResult], bool]


def load_language(name: str) -> Language:
    language = import_module(_LANGUAGES[name]).LANGUAGE
    assert isinstance(language, Language)
    return language
