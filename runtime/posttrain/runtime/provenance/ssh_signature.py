"""The binary format of SSH signatures (PROTOCOL.sshsig of OpenSSH).

DSSE carries these bytes; `ssh-keygen` reads and writes them in an armor of text.
"""

import base64
import binascii
import hashlib
import re

from posttrain.runtime.provenance.provenance_error import SignatureError
from posttrain.spec.record import record

_MAGIC = b"SSHSIG"
_VERSION = 1
_ARMOR = re.compile(rb"-----BEGIN SSH SIGNATURE-----\n([A-Za-z0-9+/=\n]+)\n-----END SSH SIGNATURE-----\n?")
_LINE = 70
# The end of the type of a certificate, and how many fields its key has.
_CERTIFICATE = "-cert-v01@openssh.com"
_KEY_FIELDS = {"ssh-rsa": 2, "ssh-ed25519": 1, "ecdsa": 2, "sk-ssh-ed25519": 2, "sk-ecdsa": 3}


@record(kw_only=True)
class SshSignature:
    """What a signature says about itself."""

    # The key, or a certificate for it.
    public_key: bytes
    namespace: str

    @property
    def is_certificate(self) -> bool:
        return _is_certificate(self.public_key)

    @property
    def principals(self) -> list[str]:
        """Whom the certificate is for; empty for a key."""
        return _principals(self.public_key) if self.is_certificate else []

    @property
    def fingerprint(self) -> str:
        """The key as `ssh-keygen -l` shows it: of a certificate, the key that it certifies."""
        digest = hashlib.sha256(_certified_key(self.public_key)).digest()
        return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def _key_type(public_key: bytes) -> str:
    return _take_text(public_key)[0].decode("ascii", "replace")


def _certified_key(public_key: bytes) -> bytes:
    """The key of a certificate (PROTOCOL.certkeys of OpenSSH); any other key itself."""
    return _split_certificate(public_key)[0] if _is_certificate(public_key) else public_key


def _split_certificate(public_key: bytes) -> tuple[bytes, bytes]:
    """The key of a certificate, and what follows it."""
    name = _key_type(public_key).removesuffix(_CERTIFICATE)
    family = "sk-ecdsa" if name.startswith("sk-ecdsa") else name.partition("-")[0]
    _, rest = _take_text(public_key)
    _, rest = _take_text(rest)  # the nonce
    plain = _add_length(f"{name}@openssh.com".encode() if name.startswith("sk-") else name.encode())
    for _ in range(_KEY_FIELDS.get(name, _KEY_FIELDS.get(family, 0))):
        field, rest = _take_text(rest)
        plain += _add_length(field)
    return plain, rest


def _principals(public_key: bytes) -> list[str]:
    """Whom a certificate is for."""
    _, rest = _split_certificate(public_key)
    _, rest = _take_text(rest[12:])  # after the serial number and the type: the id of the certificate
    packed, _ = _take_text(rest)
    found: list[str] = []
    while packed:
        name, packed = _take_text(packed)
        found.append(name.decode("utf-8", "replace"))
    return found


def _is_certificate(public_key: bytes) -> bool:
    return _key_type(public_key).endswith(_CERTIFICATE)


def _add_length(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def parse_signature(data: bytes) -> SshSignature:
    """Parse the bytes of a signature. Raises `SignatureError`."""
    try:
        if data[:6] != _MAGIC or int.from_bytes(data[6:10], "big") != _VERSION:
            raise ValueError
        public_key, rest = _take_text(data[10:])
        namespace, rest = _take_text(rest)
        found = SshSignature(public_key=public_key, namespace=namespace.decode())
        _ = found.fingerprint, found.principals  # a damaged certificate has none
        return found
    except ValueError:
        raise SignatureError("the signature is not one of `ssh-keygen -Y sign`") from None


def _take_text(data: bytes) -> tuple[bytes, bytes]:
    """The first length-prefixed text, and the rest."""
    size = int.from_bytes(data[:4], "big")
    if len(data) < 4 + size:
        raise ValueError
    return data[4 : 4 + size], data[4 + size :]


def remove_armor(text: bytes) -> bytes:
    """The bytes of a signature as `ssh-keygen` prints it. Raises `SignatureError`."""
    found = _ARMOR.fullmatch(text)
    try:
        return base64.b64decode(found[1] if found else b"", validate=False) if found else _refuse()
    except binascii.Error:
        return _refuse()


def _refuse() -> bytes:
    raise SignatureError("ssh-keygen printed no signature")


def add_armor(data: bytes) -> bytes:
    """A signature as `ssh-keygen` reads it."""
    text = base64.b64encode(data).decode()
    lines = [text[at : at + _LINE] for at in range(0, len(text), _LINE)]
    whole = ["-----BEGIN SSH SIGNATURE-----", *lines, "-----END SSH SIGNATURE-----", ""]
    return "\n".join(whole).encode()
