"""Signs and verifies with `ssh-keygen -Y`, as git does with `gpg.format = ssh`."""

import os
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from posttrain.runtime.provenance.dsse_envelope import Envelope, Signature
from posttrain.runtime.provenance.provenance_error import ProvenanceError, SignatureError
from posttrain.runtime.provenance.revocation_list import check_lines, check_readable
from posttrain.runtime.provenance.ssh_signature import SshSignature, add_armor, parse_signature, remove_armor
from posttrain.spec.record import record

# Signatures of git, of e-mail and of other programs with the same key do not count.
NAMESPACE = "posttrain"
_MAX_PRINCIPALS = 8
# What ssh-keygen says about a key that is not valid now, or about a certificate.
_INVALID = {
    "valid-before": "has expired",
    "valid-after": "is not yet valid",
    "invalid: expired": "has expired",
    "not yet valid": "is not yet valid",
}


@record(kw_only=True)
class TrustedKeys:
    """Who may sign, as files in the formats of OpenSSH."""

    # Principals with their public keys, options such as valid-before, and the namespace.
    allowed_signers: Path
    # A key revocation list, or public keys, one on each line.
    revoked_keys: Path | None = None
    # YYYYMMDD[HHMM[SS]][Z]: the time at which keys must be valid; now by default.
    verify_time: str | None = None


def sign_envelope(envelope: Envelope, key: Path) -> Envelope:
    """The envelope with one more signature. `key` is a private key, or a public one whose private key an
    agent has. Raises `ProvenanceError`."""
    if not key.is_file():
        raise ProvenanceError(f"no such key: {key}", "name the private key, or the public key of an agent")
    arguments = ["-Y", "sign", "-q", "-n", NAMESPACE, "-f", str(key)]
    done = _ssh_keygen(arguments, envelope.signed_bytes, terminal=True)
    if done.returncode:
        raise ProvenanceError(f"ssh-keygen cannot sign with {key}: {_message(done)}")
    data = remove_armor(done.stdout)
    signature = Signature(key_id=parse_signature(data).fingerprint, data=data)
    return Envelope(payload=envelope.payload, signatures=(*envelope.signatures, signature))


def verify_envelope(envelope: Envelope, trusted: TrustedKeys) -> str:
    """The principal and the key of the first trusted signature. Raises `SignatureError` if there is none."""
    if not trusted.allowed_signers.is_file():
        raise SignatureError(
            f"no such file: {trusted.allowed_signers}; without it, no signer is trusted",
            'create it with a line for each signer: NAME namespaces="posttrain" KEY-TYPE KEY',
        )
    errors: list[SignatureError] = []
    for signature in envelope.signatures:
        try:
            return _verify_signature(envelope.signed_bytes, signature, trusted)
        except SignatureError as error:
            errors.append(error)
    raise SignatureError("; ".join(map(str, errors)), errors[0].advice)


def _verify_signature(message: bytes, signature: Signature, trusted: TrustedKeys) -> str:
    """`verify` alone decides; the other calls only find the reason for a message."""
    parsed = parse_signature(signature.data)
    with _signature_file(signature.data) as file:
        signed = ["-s", str(file), "-n", NAMESPACE]
        if parsed.namespace != NAMESPACE:
            raise SignatureError(f"the key {parsed.fingerprint} signed something else: `{parsed.namespace}`")
        if signature.key_id not in ("", parsed.fingerprint):
            raise SignatureError(f"the signature of {parsed.fingerprint} names the key {signature.key_id}")
        done = _ssh_keygen(["-Y", "check-novalidate", *signed], message)
        if done.returncode:
            raise SignatureError(
                f"the signature of {parsed.fingerprint} does not match: the statement was changed",
                "do not use this artifact; tell its publisher",
            )
        principal, known = _accepted_principal(parsed, file, trusted, signed, message)
        if trusted.revoked_keys is not None:
            check_readable(trusted.revoked_keys, _ssh_keygen)
            revoked = ["-r", str(trusted.revoked_keys)]
            done = _ssh_keygen(["-Y", "verify", *signed, *known, *revoked], message)
            if done.returncode:
                check_lines(trusted.revoked_keys, parsed.fingerprint, _ssh_keygen)
                raise SignatureError(
                    f"the key {parsed.fingerprint} of {principal} is revoked by {trusted.revoked_keys}",
                    "ask the publisher to sign again with another key",
                )
    return f"{principal} ({parsed.fingerprint})"


def _accepted_principal(
    parsed: SshSignature, file: Path, trusted: TrustedKeys, signed: Sequence[str], message: bytes
) -> tuple[str, list[str]]:
    """The principal of the key, which may sign, and the options that name it."""
    principal = _find_principal(parsed, file, trusted, message)
    known = ["-f", str(trusted.allowed_signers), "-I", principal, *_time_options(trusted)]
    done = _ssh_keygen(["-Y", "verify", *signed, *known], message)
    if done.returncode:
        raise SignatureError(
            f"the key {parsed.fingerprint} of {principal} may not sign: {_message(done)}",
            f'only the first line of a key counts: add {NAMESPACE} to it, as in namespaces="git,{NAMESPACE}"',
        )
    return principal, known


def _find_principal(parsed: SshSignature, file: Path, trusted: TrustedKeys, message: bytes) -> str:
    """The principal of the key, which can be a pattern."""
    arguments = ["-Y", "find-principals", "-s", str(file), "-f", str(trusted.allowed_signers)]
    done = _ssh_keygen([*arguments, *_time_options(trusted)], b"")
    names = done.stdout.decode("utf-8", "replace").splitlines()
    if done.returncode == 0 and names:
        return names[0].partition(",")[0]
    said = done.stderr.decode("utf-8", "replace").lower()
    for name in parsed.principals[:_MAX_PRINCIPALS]:  # `find-principals` does not say that one has expired
        known = ["-s", str(file), "-n", NAMESPACE, "-f", str(trusted.allowed_signers), "-I", name]
        checked = _ssh_keygen(["-Y", "verify", *known, *_time_options(trusted)], message)
        said += checked.stderr.decode("utf-8", "replace").lower()
    what = f"{'certificate' if parsed.is_certificate else 'key'} {parsed.fingerprint}"
    if state := next((state for words, state in _INVALID.items() if words in said), ""):
        raise SignatureError(
            f"the {what} {state} in {trusted.allowed_signers}",
            "ask the publisher to sign again, or set --verify-time to a time at which you trust the key",
        )
    more = _message(done).removesuffix("No principal matched.").rstrip("; ")
    if parsed.is_certificate:
        raise SignatureError(
            f"no cert-authority in {trusted.allowed_signers} has issued the {what}: its signer is not trusted"
            + (f" ({more})" if more else ""),
            "add a line for the authority, with `cert-authority` and a pattern of its principals",
        )
    raise SignatureError(
        f"the key {parsed.fingerprint} is not in {trusted.allowed_signers}: its signer is not trusted"
        + (f" ({more})" if more else ""),
        "add the key, if you know whose it is",
    )


def _time_options(trusted: TrustedKeys) -> list[str]:
    return [] if trusted.verify_time is None else [f"-Overify-time={trusted.verify_time}"]


@contextmanager
def _signature_file(data: bytes) -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix="recipe-signature-") as folder:
        path = Path(folder) / "sig"
        path.write_bytes(add_armor(data))
        yield path


def _ssh_keygen(
    arguments: Sequence[str], given: bytes, terminal: bool = False
) -> subprocess.CompletedProcess[bytes]:
    """Run ssh-keygen. With `terminal`, it can ask for a passphrase."""
    try:
        return subprocess.run(
            ["ssh-keygen", *arguments],
            input=given,
            capture_output=True,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
            start_new_session=not terminal,
        )
    except FileNotFoundError:
        advice = "install OpenSSH 8.9 or newer (Debian: apt-get install openssh-client)"
        raise ProvenanceError("ssh-keygen is not installed", advice) from None


def _message(done: subprocess.CompletedProcess[bytes]) -> str:
    """The first lines of ssh-keygen's message."""
    lines = [line.strip() for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    return "; ".join(lines[:2]) or f"status {done.returncode}"
