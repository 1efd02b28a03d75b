"""Finds what is wrong with a file of revoked keys.

ssh-keygen refuses every signature because of a line that is no key, and does not say so. It takes a line that
starts with a null character for an empty one.
"""

import base64
import binascii
import subprocess
from collections.abc import Callable
from pathlib import Path

from posttrain.runtime.provenance.provenance_error import SignatureError

_KEY_REVOCATION_LIST = b"SSHKRL\n\0"
_ADVICE = "restore or correct the file: without it, revoked keys would be trusted"
# Runs ssh-keygen with arguments and an input.
SshKeygen = Callable[[list[str], bytes], subprocess.CompletedProcess[bytes]]


def check_readable(file: Path, ssh_keygen: SshKeygen) -> None:
    """Refuse a file that ssh-keygen would read as an empty one, and a damaged revocation list."""
    data = _read(file)
    if not data.startswith(_KEY_REVOCATION_LIST):
        if b"\0" in data:
            what = "has neither public keys nor a revocation list of OpenSSH"
            raise SignatureError(f"{file} {what}", _ADVICE)
    elif ssh_keygen(["-Q", "-l", "-f", str(file)], b"").returncode:
        raise SignatureError(f"{file} is a damaged revocation list of OpenSSH", _ADVICE)


def check_lines(file: Path, fingerprint: str, ssh_keygen: SshKeygen) -> None:
    """Refuse a line that is no public key, unless a line above it revokes the key with the fingerprint."""
    data = _read(file)
    if data.startswith(_KEY_REVOCATION_LIST):
        return
    for number, line in enumerate(data.split(b"\n"), 1):
        text = line.strip()
        if not text or text.startswith(b"#"):
            continue
        shown = ssh_keygen(["-l", "-f", "-"], text + b"\n")
        if shown.returncode or not _starts_with_key(text):
            raise SignatureError(
                f"{file}:{number}: this line is no public key, so ssh-keygen refuses every signature", _ADVICE
            )
        if fingerprint.encode() in shown.stdout.split():
            return


def _starts_with_key(line: bytes) -> bool:
    """Whether a line is a type and a key of this type: `ssh-keygen -l` accepts options before them."""
    kind, _, rest = line.partition(b" ")
    try:
        key = base64.b64decode(rest.split()[0], validate=True)
    except (binascii.Error, IndexError):
        return False
    return key[4 : 4 + len(kind)] == kind


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise SignatureError(f"{file} cannot be read: {error.strerror}", _ADVICE) from None
