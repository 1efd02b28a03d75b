"""The JSON text of documents: strict parsing, and checksums. Commands that start without pydantic use it."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, NoReturn

from posttrain.spec.canonical_json import Json, canonical_json
from posttrain.spec.keys import digest_bytes

# A larger file is no document. The plan of ten thousand steps has 50 MB.
MAX_DOCUMENT_BYTES = 1 << 28
_MAX_NAME_LENGTH = 60


class DocumentError(ValueError):
    """An invalid document: the place and the cause, and what to do about it."""

    def __init__(self, problem: str, advice: str = "") -> None:
        super().__init__(problem)
        self.advice = advice

    @property
    def full_text(self) -> str:
        return f"{self}; {self.advice}" if self.advice else str(self)


class NewerFormatError(DocumentError):
    """A document of a newer release, which is intact but not readable by this one."""


def parse_json_object(data: bytes) -> dict[str, Json]:
    """The JSON object in a file. Raises `DocumentError` for anything that JSON does not define."""
    try:
        found = _DECODER.decode(data.decode())
    except UnicodeDecodeError as error:
        raise DocumentError(f"byte {error.start} is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise DocumentError(f"{where}: it is not complete JSON ({error.msg})") from None
    except RecursionError:
        raise DocumentError("it is nested too deeply") from None
    except DocumentError:
        raise
    except ValueError as error:  # a number with too many digits
        raise DocumentError(f"it is not valid JSON ({error})") from None
    if not isinstance(found, dict):
        raise DocumentError("it is not a JSON object")
    return found


def json_checksum(record: Mapping[str, Json]) -> str:
    """The checksum over all fields of a record but its checksum."""
    content = {name: value for name, value in record.items() if name != "checksum"}
    return digest_bytes(canonical_json(content).encode("utf-8", "surrogatepass"))


def has_valid_checksum(record: Mapping[str, Json]) -> bool:
    try:
        return record.get("checksum") == json_checksum(record)
    except RecursionError:
        return False


def printable_name(name: object) -> str:
    """The name of a field as text, without control characters and of a limited length."""
    text = "".join(char if char.isprintable() else "?" for char in str(name)[: _MAX_NAME_LENGTH + 1])
    return text if len(text) <= _MAX_NAME_LENGTH else text[: _MAX_NAME_LENGTH - 3] + "..."


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise DocumentError(f"the key `{printable_name(twice)}` occurs twice in one object")
    return found


def _reject_constant(name: str) -> NoReturn:
    raise DocumentError(f"{name} is not a JSON value")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique_names, parse_constant=_reject_constant)
