"""SSH keys and lists of allowed signers, made with the real ssh-keygen."""

import shutil
import subprocess
from pathlib import Path

from tests.conftest import require_service


def make_key(folder: Path, name: str) -> Path:
    """A new private key without a passphrase; its public key is next to it."""
    program = require_service(
        "ssh-keygen", shutil.which("ssh-keygen"), "install OpenSSH (Debian: apt-get install openssh-client)"
    )
    path = folder / name
    subprocess.run([program, "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", path], check=True)
    return path


def public_key(key: Path) -> str:
    return " ".join(key.with_suffix(".pub").read_text().split()[:2])


def allow(folder: Path, *lines: tuple[str, str, Path]) -> Path:
    """A file of allowed signers: principal, options and key of each."""
    path = folder / "allowed_signers"
    path.write_text("".join(f"{who} {options} {public_key(key)}\n" for who, options, key in lines))
    return path


def certify(key: Path, authority: Path, principals: str, until: str, start: str = "-1d") -> Path:
    """A certificate for a key, from `start` to `until`, next to it."""
    validity = ["-V", f"{start}:{until}"]
    command = ["ssh-keygen", "-q", "-s", authority, "-I", key.name, "-n", principals, *validity, f"{key}.pub"]
    subprocess.run(command, check=True, capture_output=True)
    return key.with_name(f"{key.name}-cert.pub")
