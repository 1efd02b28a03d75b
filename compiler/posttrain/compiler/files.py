"""User files beside the recipe: found, read and held to their digests."""

import posixpath

from posttrain.compiler.examples import minimal
from posttrain.compiler.findings import Findings
from posttrain.compiler.source import ReadFile
from posttrain.compiler.tree import Path
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


def user_file(name: str, path: Path, read: ReadFile, findings: Findings) -> tuple[UserFile, bytes] | None:
    """The file's normalised path and digest with its content, or None when that was reported."""
    where = posixpath.normpath(name)
    if where.startswith(("..", "/")):
        message = f"`{name}` leaves the recipe's folder"
        findings.add(NO_FILE, path, message, help="copy the file beside the recipe")
        return None
    data = read(where)
    if data is None:
        findings.add(NO_FILE, path, f"there is no file `{where}` beside the recipe")
        return None
    return UserFile(path=where, sha256=digest_bytes(data)), data
