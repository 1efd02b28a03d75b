"""User files beside the recipe: found, read and held to their digests."""

import posixpath

from posttrain.compiler.diagnosis.diagnostics import Diagnostics
from posttrain.compiler.diagnosis.minimal_recipe import minimal_recipe
from posttrain.compiler.text.compile_request import CompileRequest, ReadFile
from posttrain.compiler.text.yaml_tree import KeyPath
from posttrain.spec.diagnostic import Code
from posttrain.spec.keys import digest_bytes
from posttrain.spec.plan import UserFile

FILE_NOT_FOUND = Code(
    "PT0409",
    "a file that is not there",
    "error",
    "Paths in a recipe are relative to the recipe's folder and stay within it.",
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


# More of a file of rows is not looked at; what it takes to hold it is then not taken either.
MAX_SAMPLED_BYTES = 16 * 1024 * 1024


def large_user_file(
    name: str, path: KeyPath, request: CompileRequest, diagnostics: Diagnostics, whole: bool
) -> tuple[UserFile, bytes] | None:
    """As `user_file`, of a file that may be larger than memory: unless `whole`, with its beginning alone."""
    where = posixpath.normpath(name)
    begun = None if whole or _is_outside_folder(where) else request.file_prefix(where, MAX_SAMPLED_BYTES)
    if begun is None or len(begun) < MAX_SAMPLED_BYTES:
        return user_file(name, path, request.read, diagnostics)
    digest = request.file_digest(where)
    return None if digest is None else (UserFile(path=where, sha256=digest), begun)


def _is_outside_folder(where: str) -> bool:
    return where.startswith(("..", "/"))


def user_file(
    name: str, path: KeyPath, read: ReadFile, diagnostics: Diagnostics
) -> tuple[UserFile, bytes] | None:
    """The file's normalised path and digest with its content, or None when that was reported."""
    where = posixpath.normpath(name)
    if _is_outside_folder(where):
        message = f"`{name}` leaves the recipe's folder"
        diagnostics.add(FILE_NOT_FOUND, path, message, help="copy the file beside the recipe")
        return None
    data = read(where)
    if data is None:
        message = f"there is no file `{shorten_path(where)}` beside the recipe"
        help = _template_help(name) if path[-1:] == ("chat_template",) else ""
        diagnostics.add(FILE_NOT_FOUND, path, message, help=help or missing_file_help(name))
        return None
    return UserFile(path=where, sha256=digest_bytes(data)), data


def shorten_path(path: str) -> str:
    return path if len(path) <= 80 else f"{path[:60]}...{path[-17:]}"


def _template_help(name: str) -> str:
    """What to write for a template that is given by another tool's name, or written out."""
    if "{%" in name or "{{" in name:
        return "put the template into a file beside the recipe, such as chat.jinja, and name that"
    if "." not in name:
        return "a template is a Jinja file; leave the key out to take the model's own, or let `tags` make one"
    return ""


def missing_file_help(name: str) -> str:
    """What kind of path names no file beside a recipe, and what to write instead."""
    if "://" in name:
        return "files are read from the recipe's folder: fetch it beforehand, or name a data set with `hub`"
    if name.startswith("~"):
        return "`~` is not expanded: copy the file beside the recipe"
    if any(character in name for character in "*?["):
        return "patterns are not expanded: name the files in a list"
    return "it must be a plain file in the recipe's folder; links that lead out of it are not followed"
