"""The envelope of a signed statement: DSSE v1 (Dead Simple Signing Envelope).

A signature covers the pre-authentication encoding of type and payload, so that neither can be reinterpreted.
"""

import base64
import binascii
from typing import Any, cast

from posttrain.runtime.provenance.provenance_error import ProvenanceError
from posttrain.spec.canonical_json import canonical_json
from posttrain.spec.document_json import DocumentError, parse_json_object
from posttrain.spec.record import record

PAYLOAD_TYPE = "application/vnd.in-toto+json"
MAX_ENVELOPE_BYTES = 16 << 20
_MAX_SIGNATURES = 16
_ADVICE = "ask its publisher for another one"


@record(kw_only=True)
class Signature:
    """One signature: the key that it names, and its bytes."""

    key_id: str
    data: bytes


@record(kw_only=True)
class Envelope:
    payload: bytes
    signatures: tuple[Signature, ...]
    payload_type: str = PAYLOAD_TYPE

    @property
    def signed_bytes(self) -> bytes:
        return encode_for_signing(self.payload_type, self.payload)

    def to_bytes(self) -> bytes:
        """Canonical JSON."""
        fields = {
            "payload": base64.b64encode(self.payload).decode(),
            "payloadType": self.payload_type,
            "signatures": [
                {"keyid": one.key_id, "sig": base64.b64encode(one.data).decode()} for one in self.signatures
            ],
        }
        return canonical_json(fields).encode()


def encode_for_signing(payload_type: str, payload: bytes) -> bytes:
    """The pre-authentication encoding (PAE) of DSSE v1."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def parse_envelope(data: bytes) -> Envelope:
    """Parse an envelope with an in-toto statement. Raises `ProvenanceError`."""
    if len(data) > MAX_ENVELOPE_BYTES:
        raise ProvenanceError(f"the provenance has more than {MAX_ENVELOPE_BYTES >> 20} MiB", _ADVICE)
    try:
        fields = parse_json_object(data)
    except DocumentError as error:
        raise ProvenanceError(f"the provenance is no DSSE envelope: {error}", _ADVICE) from None
    listed = fields.get("signatures")
    signatures = cast(list[Any], listed) if isinstance(listed, list) else []
    if fields.get("payloadType") != PAYLOAD_TYPE or not 0 < len(signatures) <= _MAX_SIGNATURES:
        raise ProvenanceError("the provenance is no DSSE envelope with a signed in-toto statement", _ADVICE)
    return Envelope(
        payload=_decode(fields.get("payload")),
        signatures=tuple(_parse_signature(one) for one in signatures),
    )


def _parse_signature(value: Any) -> Signature:
    fields = cast(dict[str, Any], value) if isinstance(value, dict) else {}
    key_id = fields.get("keyid", "")
    return Signature(key_id=key_id if isinstance(key_id, str) else "", data=_decode(fields.get("sig")))


def _decode(value: Any) -> bytes:
    """Base64, in the standard or the URL-safe alphabet: DSSE allows both."""
    try:
        return base64.b64decode(str(value).replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        raise ProvenanceError("a part of the DSSE envelope is not base64", _ADVICE) from None
