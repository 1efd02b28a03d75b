"""Content keys: a hash over a typed, length-framed, versioned map from name to value.

Every part is hashed on its own and kept, so that a miss can say which part changed. Framing gives
each value its type and its length: ["ab", "c"] and ["a", "bc"], 1 and "1" and 1.0 and true all
differ. Nothing depends on the order in which a map was written.
"""

import hashlib
import struct
from collections.abc import Mapping, Sequence
from typing import Any

VERSION = 1


def digest_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def digest(value: Any) -> str:
    """The sha256 of a value's canonical encoding."""
    return digest_bytes(encode(value))


def key_parts(parts: Mapping[str, Any]) -> dict[str, str]:
    """The digest of each part, by name, in a fixed order."""
    return {name: digest(parts[name]) for name in sorted(parts)}


def key_of(parts: Mapping[str, str]) -> str:
    """One key from the digests of its parts."""
    return digest({"version": VERSION, "parts": dict(parts)})


def encode(value: Any) -> bytes:
    """A value as bytes that no value of another type or shape shares."""
    match value:
        case None:
            return b"n"
        case bool():
            return b"t" if value else b"f"
        case int():
            return _framed(b"i", str(value).encode())
        case float():
            return b"d" + struct.pack(">d", value)
        case str():
            return _framed(b"s", value.encode("utf-8", "surrogatepass"))
        case bytes():
            return _framed(b"b", value)
        case Mapping():
            return _encode_map(value)
        case Sequence():
            return _framed(b"l", b"".join(_framed(b"e", encode(item)) for item in value))
        case _:
            raise TypeError(f"a key cannot hold a {type(value).__name__}")


def _encode_map(value: Mapping[Any, Any]) -> bytes:
    entries = sorted((encode(name), encode(item)) for name, item in value.items())
    return _framed(b"m", b"".join(_framed(b"k", k) + _framed(b"v", v) for k, v in entries))


def _framed(tag: bytes, data: bytes) -> bytes:
    return tag + len(data).to_bytes(8, "big") + data
