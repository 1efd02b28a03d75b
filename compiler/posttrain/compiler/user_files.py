"""Reads user files in the recipe's folder and computes their digests."""

import posixpath

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.diagnostic import Code
from posttrain.spec.keys import digest_bytes
from posttrain.spec.plan import UserFile
from posttrain.spec.suggestions import closest_match
from posttrain.spec.url_passwords import mask_url_passwords

FILE_NOT_FOUND = Code(
    "PT0409",
    "file not found",
    "error",
    "Paths in a recipe are relative to the recipe's folder and must not leave it.",
    wrong=minimal_recipe(
        (
            "tokenizer: {init: characters}",
            "tokenizer: {init: characters}\n    chat_template: chat.jinja",
        )
    ),
    right=minimal_recipe(
        (
            "tokenizer: {init: characters}",
            "tokenizer: {init: characters}\n    chat_template: chat.jinja",
        )
    ),
    files=(("chat.jinja", "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"),),
)
CODES = (FILE_NOT_FOUND,)


# Schema inference reads at most this much of a data file, which bounds its memory use.
MAX_SAMPLED_BYTES = 16 * 1024 * 1024


def large_user_file(
    name: str, path: KeyPath, request: CompileRequest, diagnostics: Diagnostics, whole: bool
) -> tuple[UserFile, bytes] | None:
    """Like `user_file`, for files larger than memory: unless `whole`, it returns only the first bytes."""
    where = posixpath.normpath(name)
    prefix = None if whole or is_outside_folder(where) else request.file_prefix(where, MAX_SAMPLED_BYTES)
    if prefix is None or len(prefix) < MAX_SAMPLED_BYTES:
        return user_file(name, path, request, diagnostics)
    digest = request.file_digest(where)
    return None if digest is None else (UserFile(path=where, sha256=digest), prefix)


def is_outside_folder(where: str) -> bool:
    """Whether a normalized path leaves the folder it is relative to. A name can start with two dots."""
    return where.startswith("/") or where.partition("/")[0] == ".."


def user_file(
    name: str, path: KeyPath, request: CompileRequest, diagnostics: Diagnostics
) -> tuple[UserFile, bytes] | None:
    """The file's normalized path, digest and content; None after a reported error."""
    where = posixpath.normpath(name)
    if is_outside_folder(where):
        message = f"`{name}` is outside the recipe's folder"
        diagnostics.add(FILE_NOT_FOUND, path, message, help="copy the file into the recipe's folder")
        return None
    data = request.read(where)
    if data is None:
        message, help = describe_missing_file(where, name, request)
        diagnostics.add(FILE_NOT_FOUND, path, message, help=help)
        return None
    return UserFile(path=where, sha256=digest_bytes(data)), data


def shorten_path(path: str) -> str:
    path = mask_url_passwords(path)
    return path if len(path) <= 80 else f"{path[:60]}...{path[-17:]}"


def describe_missing_file(where: str, name: str, request: CompileRequest) -> tuple[str, str]:
    """The message and the help for a file that cannot be read. `name` is its path in the recipe."""
    problem = request.problem_with(where)
    if problem is not None:
        return f"`{shorten_path(where)}` {problem}", "copy the file into the recipe's folder"
    message = f"there is no file `{shorten_path(where)}` in the recipe's folder"
    meant = _similar_file(where, request)
    return message, f"did you mean `{shorten_path(meant)}`?" if meant else _missing_file_help(name)


def _similar_file(where: str, request: CompileRequest) -> str | None:
    """The file in the same folder with a similar name, and with the same suffix or a longer or shorter one
    (json, jsonl)."""
    stem, suffix = posixpath.splitext(posixpath.basename(where))
    found: dict[str, list[str]] = {}
    for path in request.files_near(where):
        other, its_suffix = posixpath.splitext(posixpath.basename(path))
        if path != request.source.name and (its_suffix.startswith(suffix) or suffix.startswith(its_suffix)):
            found.setdefault(other, []).append(path)
    meant = closest_match(stem, found)
    return min(found[meant], key=lambda path: (not path.endswith(suffix), path)) if meant else None


def _missing_file_help(name: str) -> str:
    """The help for a missing file, depending on the kind of path."""
    if "://" in name:
        return (
            "files are read from the recipe's folder: download the file, or use the source `hub` for a"
            " dataset on the hub"
        )
    if name.startswith("~"):
        return "`~` is not expanded: copy the file into the recipe's folder"
    if any(character in name for character in "*?["):
        return "glob patterns are not expanded: list the files"
    return "the file must be in the recipe's folder"
