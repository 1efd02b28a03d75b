"""Reads the JSON files of a model in the recipe's folder, with limits on their size and depth."""

import json
import posixpath
from collections.abc import Mapping
from typing import Any

from posttrain.compiler.text.compile_request import CompileRequest
from posttrain.spec.model_files import MAX_FILE_BYTES


def read_model_json(origin: str, name: str, request: CompileRequest) -> Mapping[str, Any]:
    """The values of a file of a model; empty if it is missing, too large or no JSON object, as the check of
    the folder or the run reports."""
    where, most = posixpath.normpath(posixpath.join(origin, name)), MAX_FILE_BYTES[name]
    content = request.file_prefix(where, most + 1)
    if not content or len(content) > most:
        return {}
    try:
        found: Any = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
