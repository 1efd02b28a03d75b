"""Parses documents. Whatever does not fit is one `DocumentError` with the fields and the causes."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from posttrain.spec.canonical_json import Json
from posttrain.spec.document import Document
from posttrain.spec.document_json import (
    DocumentError,
    NewerFormatError,
    has_valid_checksum,
    json_checksum,
    parse_json_object,
    printable_name,
)
from posttrain.spec.error_messages import error_message

DocumentT = TypeVar("DocumentT", bound=Document)
_MAX_ERRORS = 3
_UPGRADE_ADVICE = "upgrade posttrain, or use another home with --home"


def parse_document(model: type[DocumentT], data: bytes) -> DocumentT:
    """The document in a file. Raises `DocumentError`."""
    try:
        found = parse_json_object(data)
    except DocumentError as error:
        raise DocumentError(str(error), model.ADVICE) from None
    return document_from_dict(model, found)


def document_from_dict(model: type[DocumentT], found: Mapping[str, Json]) -> DocumentT:
    """The document in a JSON object: its format, its checksum if it has one, then all fields."""
    _check_format(model, found)
    if "checksum" in model.model_fields and not has_valid_checksum(found):
        raise DocumentError("its checksum does not match its fields", model.ADVICE)
    try:
        return model.model_validate(found)
    except (ValidationError, RecursionError) as error:
        problem = field_errors(error) if isinstance(error, ValidationError) else "it is nested too deeply"
        raise DocumentError(problem, model.ADVICE) from None


def create_document(model: type[DocumentT], **values: Any) -> DocumentT:
    """A new document, with its format and its checksum. Raises `DocumentError`."""
    named: dict[str, Any] = {**values, "format": model.FORMAT} if model.FORMAT is not None else {**values}
    if "checksum" in model.model_fields:
        # Defaults and the order of fields are those of the document.
        unchecked: Any = model.model_construct
        named = unchecked(**{**named, "checksum": ""}).model_dump(warnings=False)
        named["checksum"] = json_checksum(named)
    try:
        return model.model_validate(named)
    except ValidationError as error:
        raise DocumentError(field_errors(error), model.ADVICE) from None


def field_errors(error: ValidationError) -> str:
    """The first errors of a document in one line, each with the name of its field."""
    found = error.errors(include_url=False, include_input=False)
    more = f"; and {len(found) - _MAX_ERRORS} more errors" if len(found) > _MAX_ERRORS else ""
    return "; ".join(map(field_error, found[:_MAX_ERRORS])) + more


def field_error(found: ErrorDetails, skip: int = 0) -> str:
    """One error with the name of its field, without the first `skip` parts of the name."""
    path = [part for part in found["loc"][skip:] if part != "[key]"]
    name = ".".join(map(printable_name, path))
    message = _message(found)
    return f"`{name}`: {message}" if name else message


def _message(found: ErrorDetails) -> str:
    if found["type"] == "extra_forbidden":
        return "unknown key"
    if found["type"] == "value_error":
        return str(found.get("ctx", {}).get("error"))
    if found["type"] == "missing":
        return "field required"
    if found["type"] == "union_tag_invalid":
        return f"the kind must be one of {found.get('ctx', {}).get('expected_tags')}"
    if found["type"] == "string_pattern_mismatch":
        return "not a valid name" if "[key]" in found["loc"] else "the text does not have the expected form"
    message = error_message(found["type"], found.get("ctx", {})) or found["msg"]
    return message[:1].lower() + message[1:]


def _check_format(model: type[Document], found: Mapping[str, Json]) -> None:
    if model.FORMAT is None or (not model.FORMAT_REQUIRED and "format" not in found):
        return
    number = found.get("format")
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise DocumentError(f"this is not {model.TITLE}: it has no format number", model.ADVICE)
    if number > model.FORMAT:
        raise NewerFormatError(
            f"it has format {printable_name(number)} of a newer release; this release reads format"
            f" {model.FORMAT}",
            _UPGRADE_ADVICE,
        )
    if number < model.FORMAT:
        raise DocumentError(f"it has format {number} of an older release, not {model.FORMAT}", model.ADVICE)
