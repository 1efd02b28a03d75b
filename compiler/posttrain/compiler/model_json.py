"""Reads the JSON files of a model's folder, which can be huge or malformed."""

import json
import posixpath
from typing import Any, cast

from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.spec.model_files import MAX_FILE_BYTES


def read_model_json(origin: str, name: str, request: CompileRequest) -> dict[str, Any]:
    """Return the object in a file of a model's folder.

    Empty if there is no such file, or if it is too large or no JSON object, which other checks report.
    """
    content = request.file_prefix(model_file(origin, name), MAX_FILE_BYTES[name] + 1)
    if content is None or len(content) > MAX_FILE_BYTES[name]:
        return {}
    try:
        found: Any = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def model_file(origin: str, name: str) -> str:
    return posixpath.normpath(posixpath.join(origin, name))
