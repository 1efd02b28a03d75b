"""Signed envelopes: what ssh-keygen accepts, and a message for each reason to refuse."""

import base64
import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests.ssh_keys import allow, certify, make_key, public_key

from posttrain.cli.invalid_usage import InvalidUsage
from posttrain.cli.trust_options import TrustOptions, read_trust
from posttrain.runtime.provenance.dsse_envelope import (
    Envelope,
    Signature,
    encode_for_signing,
    parse_envelope,
)
from posttrain.runtime.provenance.provenance_error import ProvenanceError, SignatureError
from posttrain.runtime.provenance.ssh_keygen import TrustedKeys, sign_envelope, verify_envelope
from posttrain.runtime.provenance.ssh_signature import add_armor, parse_signature

ONLY_US = 'namespaces="posttrain"'
UNSIGNED = Envelope(payload=b'{"a":1}', signatures=())


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return make_key(tmp_path, "key")


@pytest.fixture
def envelope(key: Path) -> Envelope:
    return sign_envelope(UNSIGNED, key)


def refusal(envelope: Envelope, trusted: TrustedKeys) -> str:
    with pytest.raises(SignatureError) as found:
        verify_envelope(envelope, trusted)
    return str(found.value)


def test_a_trusted_signature_names_its_signer(tmp_path: Path, key: Path, envelope: Envelope) -> None:
    trusted = TrustedKeys(allowed_signers=allow(tmp_path, ("me@x", ONLY_US, key)))
    shown = subprocess.run(["ssh-keygen", "-lf", key], capture_output=True, text=True, check=True).stdout
    fingerprint = shown.split()[1]
    assert envelope.signatures[0].key_id == fingerprint
    assert verify_envelope(envelope, trusted) == f"me@x ({fingerprint})"
    assert verify_envelope(parse_envelope(envelope.to_bytes()), trusted).startswith("me@x")
    assert sign_envelope(UNSIGNED, key).to_bytes() == envelope.to_bytes()  # deterministic


def test_ssh_keygen_alone_verifies_an_envelope(tmp_path: Path, key: Path, envelope: Envelope) -> None:
    """As docs/provenance.md describes it, without this program."""
    fields = json.loads(envelope.to_bytes())
    payload = base64.b64decode(fields["payload"])
    kind = fields["payloadType"]
    message = f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload
    armored = tmp_path / "sig"
    armored.write_bytes(add_armor(base64.b64decode(fields["signatures"][0]["sig"])))
    arguments = ["-f", allow(tmp_path, ("me@x", "", key)), "-I", "me@x", "-n", "posttrain", "-s", armored]
    done = subprocess.run(["ssh-keygen", "-Y", "verify", *arguments], input=message, check=True)
    assert done.returncode == 0


def test_the_encoding_is_that_of_the_specification() -> None:
    """The example of the DSSE protocol."""
    encoded = encode_for_signing("http://example.com/HelloWorld", b"hello world")
    assert encoded == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"


def test_an_unknown_signer_is_refused(tmp_path: Path, envelope: Envelope) -> None:
    other = make_key(tmp_path, "other")
    message = refusal(envelope, TrustedKeys(allowed_signers=allow(tmp_path, ("me@x", ONLY_US, other))))
    assert f"the key {envelope.signatures[0].key_id} is not in" in message
    assert "its signer is not trusted" in message


def test_an_expired_key_is_refused_unless_the_time_is_set(
    tmp_path: Path, key: Path, envelope: Envelope
) -> None:
    allowed = allow(tmp_path, ("me@x", f'{ONLY_US},valid-before="20200101"', key))
    assert "has expired in" in refusal(envelope, TrustedKeys(allowed_signers=allowed))
    earlier = TrustedKeys(allowed_signers=allowed, verify_time="20191231")
    assert verify_envelope(envelope, earlier).startswith("me@x")
    later = allow(tmp_path, ("me@x", f'{ONLY_US},valid-after="20990101"', key))
    assert "is not yet valid in" in refusal(envelope, TrustedKeys(allowed_signers=later))


@pytest.mark.parametrize("form", ["keys", "list"])
def test_a_revoked_key_is_refused(tmp_path: Path, key: Path, envelope: Envelope, form: str) -> None:
    allowed, revoked = allow(tmp_path, ("me@x", ONLY_US, key)), tmp_path / "revoked_keys"
    other = make_key(tmp_path, "other")

    def revoke(one: Path) -> TrustedKeys:
        if form == "keys":
            revoked.write_text(public_key(one) + "\n")
        else:
            subprocess.run(["ssh-keygen", "-q", "-k", "-f", revoked, one.with_suffix(".pub")], check=True)
        return TrustedKeys(allowed_signers=allowed, revoked_keys=revoked)

    assert verify_envelope(envelope, revoke(other)).startswith("me@x")
    assert f"of me@x is revoked by {revoked}" in refusal(envelope, revoke(key))


def test_a_changed_statement_is_refused(tmp_path: Path, key: Path, envelope: Envelope) -> None:
    trusted = TrustedKeys(allowed_signers=allow(tmp_path, ("me@x", ONLY_US, key)))
    changed = replace(envelope, payload=b'{"a":2}')
    assert "does not match: the statement was changed" in refusal(changed, trusted)
    cut = replace(envelope, signatures=(replace(envelope.signatures[0], data=b"SSHSIG\0\0\0\1\0\0\0\xff"),))
    assert "is not one of `ssh-keygen -Y sign`" in refusal(cut, trusted)
    renamed = replace(envelope, signatures=(replace(envelope.signatures[0], key_id="SHA256:x"),))
    assert "names the key SHA256:x" in refusal(renamed, trusted)


def test_a_signature_for_another_purpose_is_refused(tmp_path: Path, key: Path) -> None:
    """Such as one of git with the same key."""
    signed = subprocess.run(
        ["ssh-keygen", "-Y", "sign", "-q", "-n", "git", "-f", key],
        input=UNSIGNED.signed_bytes,
        capture_output=True,
        check=True,
    ).stdout
    data = base64.b64decode(b"".join(signed.splitlines()[1:-1]))
    found = Signature(key_id=parse_signature(data).fingerprint, data=data)
    trusted = TrustedKeys(allowed_signers=allow(tmp_path, ("me@x", "", key)))
    assert "signed something else: `git`" in refusal(replace(UNSIGNED, signatures=(found,)), trusted)


def test_a_key_that_is_allowed_for_git_only_is_refused(tmp_path: Path, key: Path, envelope: Envelope) -> None:
    trusted = TrustedKeys(allowed_signers=allow(tmp_path, ("me@x", 'namespaces="git"', key)))
    assert "of me@x may not sign:" in refusal(envelope, trusted)


def test_one_trusted_signature_is_enough(tmp_path: Path, key: Path, envelope: Envelope) -> None:
    other = make_key(tmp_path, "other")
    both = sign_envelope(envelope, other)
    assert len(both.signatures) == 2
    trusted = TrustedKeys(allowed_signers=allow(tmp_path, ("other@x", ONLY_US, other)))
    assert verify_envelope(both, trusted).startswith("other@x")


def test_nobody_is_trusted_without_a_list(tmp_path: Path, envelope: Envelope) -> None:
    message = refusal(envelope, TrustedKeys(allowed_signers=tmp_path / "none"))
    assert "without it, no signer is trusted" in message
    damaged = tmp_path / "damaged"
    damaged.write_text("me@x not a key\n")
    assert f"is not trusted ({damaged}:1: invalid key" in refusal(
        envelope, TrustedKeys(allowed_signers=damaged)
    )


def test_a_missing_key_and_a_missing_program(
    tmp_path: Path, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ProvenanceError, match="no such key"):
        sign_envelope(UNSIGNED, tmp_path / "none")
    (tmp_path / "text").write_text("no key")
    with pytest.raises(ProvenanceError, match="ssh-keygen cannot sign with"):
        sign_envelope(UNSIGNED, tmp_path / "text")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProvenanceError, match="ssh-keygen is not installed"):
        sign_envelope(UNSIGNED, key)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"payloadType":"text","payload":"","signatures":[{"keyid":"","sig":""}]}',
        b'{"payloadType":"application/vnd.in-toto+json","payload":"","signatures":[]}',
        b'{"payloadType":"application/vnd.in-toto+json","payload":"%%","signatures":[{"sig":""}]}',
        b'{"payloadType":"application/vnd.in-toto+json","payload":"","signatures":[1,2,"x"]}' * 2,
    ],
)
def test_other_documents_are_no_envelopes(data: bytes) -> None:
    with pytest.raises(ProvenanceError):
        parse_envelope(data)


def test_the_first_line_of_a_key_counts(tmp_path: Path, key: Path, envelope: Envelope) -> None:
    """ssh-keygen finds only that one; the message says how to join the lines."""
    lines = ("git@y", 'namespaces="git"', key), ("me@x", ONLY_US, key)
    with pytest.raises(SignatureError, match="of git@y may not sign") as refused:
        verify_envelope(envelope, TrustedKeys(allowed_signers=allow(tmp_path, *lines)))
    assert '"git,posttrain"' in refused.value.advice


def test_a_damaged_revocation_list_is_refused(tmp_path: Path, key: Path, envelope: Envelope) -> None:
    """ssh-keygen accepts it, and revokes nothing."""
    revoked = tmp_path / "revoked_keys"
    revoked.write_bytes(b"\0" * 100 + public_key(key).encode())
    trusted = TrustedKeys(allowed_signers=allow(tmp_path, ("me@x", ONLY_US, key)), revoked_keys=revoked)
    assert "neither public keys nor a revocation list" in refusal(envelope, trusted)


@pytest.mark.parametrize("time", ["2026", "20269999", "\uff12\uff10261231", "20261231ZZ", "Z"])
def test_an_invalid_time_is_no_reason_to_distrust_a_signer(time: str) -> None:
    options = TrustOptions(
        allowed_signers="allowed_signers",
        revoked_keys=None,
        verify_time=time,
        certificate_identity=None,
        certificate_oidc_issuer=None,
    )
    with pytest.raises(InvalidUsage, match="--verify-time takes"):
        read_trust(options)
    read_trust({**options, "verify_time": "202612312359Z"})


def test_a_list_of_revoked_keys_that_is_a_broken_link_is_not_forgotten(tmp_path: Path) -> None:
    (tmp_path / "revoked_keys").symlink_to(tmp_path / "moved")
    options = TrustOptions(
        allowed_signers=str(tmp_path / "allowed_signers"),
        revoked_keys=None,
        verify_time=None,
        certificate_identity=None,
        certificate_oidc_issuer=None,
    )
    with pytest.raises(InvalidUsage, match="no such file"):
        read_trust(options)


@pytest.mark.parametrize(
    ("type", "size"), [("ed25519", "256"), ("rsa", "2048"), ("ecdsa", "256")], ids=["ed25519", "rsa", "ecdsa"]
)
def test_the_signer_of_a_certificate_is_its_principal(tmp_path: Path, type: str, size: str) -> None:
    key, authority = tmp_path / "key", make_key(tmp_path, "authority")
    subprocess.run(["ssh-keygen", "-q", "-t", type, "-b", size, "-N", "", "-f", key], check=True)
    shown = subprocess.run(["ssh-keygen", "-lf", key], capture_output=True, text=True, check=True).stdout
    signed = sign_envelope(UNSIGNED, certify(key, authority, "ada@x,team@x", "+1h"))
    assert signed.signatures[0].key_id == shown.split()[1]
    trusted = TrustedKeys(allowed_signers=allow(tmp_path, ("*@x", f"cert-authority,{ONLY_US}", authority)))
    assert verify_envelope(signed, trusted) == f"ada@x ({shown.split()[1]})"


def test_certificates_that_do_not_count_are_refused(tmp_path: Path, key: Path) -> None:
    authority, other = make_key(tmp_path, "authority"), make_key(tmp_path, "other")
    signed = sign_envelope(UNSIGNED, certify(key, authority, "ada@x", "+1h"))

    def message(who: str, options: str, listed: Path) -> str:
        return refusal(signed, TrustedKeys(allowed_signers=allow(tmp_path, (who, options, listed))))

    assert "no cert-authority in" in message("*@x", "cert-authority", other)
    assert "no cert-authority in" in message("*@y", "cert-authority", authority)
    assert "no cert-authority in" in message("ada@x", "", key)  # the key counts only without certificate
    assert "of ada@x may not sign" in message("*@x", 'cert-authority,namespaces="git"', authority)
    trusted = TrustedKeys(allowed_signers=allow(tmp_path, ("*@x", "cert-authority", authority)))
    expired = sign_envelope(UNSIGNED, certify(key, authority, "ada@x", "20200201", "20200101"))
    assert "the certificate SHA256:" in refusal(expired, trusted)
    assert "has expired in" in refusal(expired, trusted)
    assert verify_envelope(expired, replace(trusted, verify_time="20200115")).startswith("ada@x")
    later = sign_envelope(UNSIGNED, certify(key, authority, "ada@x", "20990201", "20990101"))
    assert "is not yet valid in" in refusal(later, trusted)


@pytest.mark.parametrize("revoked", ["key", "authority"])
def test_the_key_or_the_authority_of_a_certificate_can_be_revoked(
    tmp_path: Path, key: Path, revoked: str
) -> None:
    authority, file = make_key(tmp_path, "authority"), tmp_path / "revoked_keys"
    signed = sign_envelope(UNSIGNED, certify(key, authority, "ada@x", "+1h"))
    trusted = TrustedKeys(
        allowed_signers=allow(tmp_path, ("*@x", "cert-authority", authority)), revoked_keys=file
    )
    file.write_text(public_key(make_key(tmp_path, "other")) + "\n")
    assert verify_envelope(signed, trusted).startswith("ada@x")
    file.write_text(public_key({"key": key, "authority": authority}[revoked]) + "\n")
    assert f"of ada@x is revoked by {file}" in refusal(signed, trusted)


@pytest.mark.parametrize("line", ["garbage", "ssh-ed25519 AAAA", 'from="*" {key}', "ssh-rsa {body}", "{cut}"])
def test_a_line_of_the_revoked_keys_that_is_no_key_is_named(
    tmp_path: Path, key: Path, envelope: Envelope, line: str
) -> None:
    other = public_key(make_key(tmp_path, "other"))
    line = line.format(key=other, body=other.split()[1], cut=other[:-20])
    revoked = tmp_path / "revoked_keys"
    trusted = TrustedKeys(allowed_signers=allow(tmp_path, ("me@x", ONLY_US, key)), revoked_keys=revoked)
    revoked.write_text(f"# those who left\n{other}\n\n{line}\n")
    assert f"{revoked}:4: this line is no public key" in refusal(envelope, trusted)
    revoked.write_text(f"{public_key(key)}\n{line}\n")
    assert f"is revoked by {revoked}" in refusal(envelope, trusted)


def test_a_revocation_list_that_is_cut_is_damaged(tmp_path: Path, key: Path, envelope: Envelope) -> None:
    revoked = tmp_path / "revoked_keys"
    other = make_key(tmp_path, "other").with_suffix(".pub")
    subprocess.run(["ssh-keygen", "-q", "-k", "-f", revoked, other], check=True)
    trusted = TrustedKeys(allowed_signers=allow(tmp_path, ("me@x", ONLY_US, key)), revoked_keys=revoked)
    assert verify_envelope(envelope, trusted).startswith("me@x")
    revoked.write_bytes(revoked.read_bytes()[:-4])
    assert f"{revoked} is a damaged revocation list" in refusal(envelope, trusted)
