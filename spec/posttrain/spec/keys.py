"""Cache keys: a hash over a typed, length-framed, versioned map from name to value.

Every part has its own stored digest, so that a cache miss can report which part changed. Framing
encodes the type and length of each value: ["ab", "c"] and ["a", "bc"], 1 and "1" and 1.0 and true all
differ. The order of a map has no effect.
"""

import hashlib
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

KEY_VERSION = 1


def digest_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# The legs of a matrix share most values. Values with different encodings have different `repr`s. Equal
# encodings can have different `repr`s (the order of a map); then the value is only hashed once more.
_digest_cache: dict[str, str] = {}
_DIGEST_CACHE_SIZE = 50_000


def digest(value: Any) -> str:
    """The sha256 of a value's canonical encoding."""
    shown = repr(value)
    cached = _digest_cache.get(shown)
    if cached is None:
        if len(_digest_cache) >= _DIGEST_CACHE_SIZE:
            _digest_cache.clear()
        cached = _digest_cache[shown] = digest_bytes(encode(value))
    return cached


def key_parts(parts: Mapping[str, Any]) -> dict[str, str]:
    """The digest of each part, by name, in a fixed order."""
    return {name: digest(parts[name]) for name in sorted(parts)}


def key_from_parts(parts: Mapping[str, str]) -> str:
    """The key of a step, from the digests of its parts."""
    return digest({"version": KEY_VERSION, "parts": dict(parts)})


def encode(value: Any) -> bytes:
    """An injective encoding: values of different types or shapes have different bytes."""
    plain = _SCALAR_ENCODERS.get(type(value))
    if plain is not None:
        return plain(value)
    if isinstance(value, Mapping):
        return _encode_map(cast("Mapping[Any, Any]", value))
    if isinstance(value, Sequence):
        return _frame(b"l", b"".join(_frame(b"e", encode(item)) for item in cast("Sequence[Any]", value)))
    raise TypeError(f"a key cannot contain a {type(value).__name__}")


def _encode_map(value: Mapping[Any, Any]) -> bytes:
    entries = sorted((_encode_name(name), encode(item)) for name, item in value.items())
    return _frame(b"m", b"".join(_frame(b"k", k) + _frame(b"v", v) for k, v in entries))


@lru_cache(maxsize=10_000, typed=True)
def _encode_name(name: Any) -> bytes:
    """Encode a name, cached: the names of parts are the same in all steps."""
    return encode(name)


def _frame(tag: bytes, data: bytes) -> bytes:
    return tag + len(data).to_bytes(8, "big") + data


_SCALAR_ENCODERS: Mapping[type, Callable[[Any], bytes]] = {
    type(None): lambda _: b"n",
    bool: lambda value: b"t" if value else b"f",
    int: lambda value: _frame(b"i", str(value).encode()),
    float: lambda value: b"d" + struct.pack(">d", value),
    str: lambda value: _frame(b"s", value.encode("utf-8", "surrogatepass")),
    bytes: lambda value: _frame(b"b", value),
}
