"""User files beside the recipe: found, read and held to their digests."""

import posixpath

from posttrain.compiler.diagnosis.examples import minimal
from posttrain.compiler.diagnosis.findings import Findings
from posttrain.compiler.text.source import ReadFile, Request
from posttrain.compiler.text.tree import Path
from posttrain.spec.diagnostic import Code
from posttrain.spec.keys import digest_bytes
from posttrain.spec.plan import UserFile

NO_FILE = Code(
    "PT0409",
    "a file that is not there",
    "error",
    "Paths in a recipe are relative to the recipe's folder and stay within it.",
    wrong=minimal(
        (
            "tokenizer: {init: characters}",
            "tokenizer: {init: characters}\n    chat_template: chat.jinja",
        )
    ),
    right=minimal(
        (
            "tokenizer: {init: characters}",
            "tokenizer: {init: characters}\n    chat_template: chat.jinja",
        )
    ),
    beside=(("chat.jinja", "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"),),
)
CODES = (NO_FILE,)


# More of a file of rows is not looked at; what it takes to hold it is then not taken either.
MOST_LOOKED_AT = 16 * 1024 * 1024


def rows_file(
    name: str, path: Path, request: Request, findings: Findings, whole: bool
) -> tuple[UserFile, bytes] | None:
    """As `user_file`, of a file that may be larger than memory: unless `whole`, with its beginning alone."""
    where = posixpath.normpath(name)
    begun = None if whole or _leaves(where) else request.beginning_of(where, MOST_LOOKED_AT)
    if begun is None or len(begun) < MOST_LOOKED_AT:
        return user_file(name, path, request.read, findings)
    digest = request.digest_of(where)
    return None if digest is None else (UserFile(path=where, sha256=digest), begun)


def _leaves(where: str) -> bool:
    return where.startswith(("..", "/"))


def user_file(name: str, path: Path, read: ReadFile, findings: Findings) -> tuple[UserFile, bytes] | None:
    """The file's normalised path and digest with its content, or None when that was reported."""
    where = posixpath.normpath(name)
    if _leaves(where):
        message = f"`{name}` leaves the recipe's folder"
        findings.add(NO_FILE, path, message, help="copy the file beside the recipe")
        return None
    data = read(where)
    if data is None:
        message = f"there is no file `{shortened(where)}` beside the recipe"
        help = _template(name) if path[-1:] == ("chat_template",) else ""
        findings.add(NO_FILE, path, message, help=help or unreadable_path(name))
        return None
    return UserFile(path=where, sha256=digest_bytes(data)), data


def shortened(path: str) -> str:
    return path if len(path) <= 80 else f"{path[:60]}...{path[-17:]}"


def _template(name: str) -> str:
    """What to write for a template that is given by another tool's name, or written out."""
    if "{%" in name or "{{" in name:
        return "put the template into a file beside the recipe, such as chat.jinja, and name that"
    if "." not in name:
        return "a template is a Jinja file; leave the key out to take the model's own, or let `tags` make one"
    return ""


def unreadable_path(name: str) -> str:
    """What kind of path names no file beside a recipe, and what to write instead."""
    if "://" in name:
        return "files are read from the recipe's folder: fetch it beforehand, or name a data set with `hub`"
    if name.startswith("~"):
        return "`~` is not expanded: copy the file beside the recipe"
    if any(character in name for character in "*?["):
        return "patterns are not expanded: name the files in a list"
    return "it must be a plain file in the recipe's folder; links that lead out of it are not followed"
