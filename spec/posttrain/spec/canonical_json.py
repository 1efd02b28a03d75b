"""Deterministic JSON, which digests and keys are computed from."""

import json
from typing import Any

from posttrain.spec.record import to_builtins

Json = Any


def canonical_json(value: Json) -> str:
    """JSON with sorted keys and without white space. Records and documents become mappings."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=_builtins)


def _builtins(value: Any) -> Json:
    # No import of pydantic: digests are also computed by commands that start without it.
    dump = getattr(value, "model_dump", None)
    return to_builtins(value) if dump is None else dump()
