"""Sigstore, as far as it works without an identity: only a CI job can sign."""

import base64
import json
import socket
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from sigstore import models, oidc
from sigstore.verify import Verifier
from tests.runtime.provenance.own_sigstore import OwnSigstore

from posttrain.runtime.provenance.provenance_error import ProvenanceError, SignatureError
from posttrain.runtime.provenance.sigstore_bundle import (
    BUNDLE_TYPE,
    TrustedIdentity,
    sign_bundle,
    verify_bundle,
)

TRUSTED = TrustedIdentity(identity="https://example.com/workflow", issuer="https://example.com")


@pytest.fixture(autouse=True)
def _own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sigstore keeps its trust root in these."""
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path_factory.mktemp("xdg")))
    for name in ("GITHUB_ACTIONS", "GITLAB_CI", "CIRCLECI", "BUILDKITE"):
        monkeypatch.delenv(name, raising=False)


def test_without_a_ci_job_there_is_no_identity() -> None:
    with pytest.raises(ProvenanceError, match="there is no identity to sign with") as found:
        sign_bundle(b"{}")
    assert "id-token: write" in found.value.advice


def test_a_job_without_the_permission_has_no_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    with pytest.raises(ProvenanceError, match="the CI system gives no identity") as found:
        sign_bundle(b"{}")
    assert "id-token: write" in found.value.advice


def token_of(**claims: object) -> str:
    """An OIDC token with these claims; nobody but Fulcio checks its signature."""

    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part(claims)}.AAAA"


VALID = {"aud": "sigstore", "sub": "workflow", "iss": "https://example.com"}


@pytest.mark.parametrize(
    "token",
    ["no token", "a.b.c", token_of(**VALID), token_of(**VALID, iat=1, exp=2)],
)
def test_a_token_that_is_not_valid_is_refused(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oidc, "detect_credential", Mock(return_value=token))
    with pytest.raises(ProvenanceError, match="an identity that Sigstore does not accept") as found:
        sign_bundle(b"{}")
    assert "--key" in found.value.advice


def test_signing_without_a_network_fails_clearly(monkeypatch: pytest.MonkeyPatch) -> None:
    now = int(time.time())
    token = token_of(**VALID, iat=now, exp=now + 600)
    monkeypatch.setattr(oidc, "detect_credential", Mock(return_value=token))
    monkeypatch.setattr(socket, "getaddrinfo", Mock(side_effect=OSError("no network")))
    with pytest.raises(ProvenanceError, match="Sigstore did not sign for workflow: ") as found:
        sign_bundle(b"{}")
    assert "check the access" in found.value.advice


def bundle_with(certificate: bytes) -> bytes:
    """A bundle of the right form whose certificate is this one."""
    encoded = base64.b64encode(certificate).decode()
    proof = {
        "logIndex": "0",
        "rootHash": "AAAA",
        "treeSize": "1",
        "hashes": [],
        "checkpoint": {"envelope": "x"},
    }
    entry = {
        "logIndex": "0",
        "logId": {"keyId": "AAAA"},
        "kindVersion": {"kind": "dsse", "version": "0.0.1"},
        "integratedTime": "1",
        "inclusionPromise": {"signedEntryTimestamp": "AAAA"},
        "inclusionProof": proof,
        "canonicalizedBody": "AAAA",
    }
    envelope = {
        "payload": "e30=",
        "payloadType": "application/vnd.in-toto+json",
        "signatures": [{"sig": "AAAA"}],
    }
    material = {"certificate": {"rawBytes": encoded}, "tlogEntries": [entry]}
    fields = {"mediaType": BUNDLE_TYPE, "verificationMaterial": material, "dsseEnvelope": envelope}
    return json.dumps(fields).encode()


def self_signed() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
    start = datetime(1970, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder(
        name, name, key.public_key(), 1, start, datetime(2100, 1, 1, tzinfo=UTC)
    )
    uri = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(TRUSTED.identity)])
    return builder.add_extension(uri, False).sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


def test_a_certificate_of_nobody_is_refused() -> None:
    """It has the expected identity, and no authority of Sigstore has issued it."""
    with pytest.raises(SignatureError, match="failed to build timestamp certificate chain"):
        verify_bundle(bundle_with(self_signed()), TRUSTED)
    for certificate in (b"", b"no certificate"):
        with pytest.raises(SignatureError, match="the Sigstore bundle is not valid"):
            verify_bundle(bundle_with(certificate), TRUSTED)


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"mediaType": "x"}', b"[" * 100_000, b"\xff"])
def test_a_damaged_bundle_is_refused(data: bytes) -> None:
    with pytest.raises(SignatureError, match="the Sigstore bundle is not valid"):
        verify_bundle(data, TRUSTED)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OwnSigstore:
    """The trust root is that of the tests; everything else is the verification of the library."""
    services = OwnSigstore()
    root = tmp_path / "trusted_root.json"
    root.write_bytes(services.trusted_root())
    verifier = Verifier(trusted_root=models.TrustedRoot.from_file(str(root)))
    monkeypatch.setattr(Verifier, "production", Mock(return_value=verifier))
    return services


def signed(own: OwnSigstore, payload: bytes = b'{"a":1}', **changed: str) -> bytes:
    chosen = {"identity": TRUSTED.identity, "issuer": TRUSTED.issuer, **changed}
    return json.dumps(own.sign(payload, **chosen)).encode()


def test_a_bundle_of_the_expected_identity_is_accepted(own: OwnSigstore) -> None:
    signer, payload = verify_bundle(signed(own), TRUSTED)
    assert signer == "https://example.com/workflow (https://example.com)"
    assert payload == b'{"a":1}'


def test_bundles_that_do_not_count_are_refused(own: OwnSigstore) -> None:
    good = json.loads(signed(own))

    def refusal(**changed: Any) -> str:
        with pytest.raises(SignatureError) as found:
            verify_bundle(json.dumps({**good, **changed}).encode(), TRUSTED)
        return str(found.value)

    with pytest.raises(SignatureError, match="SANs do not match"):
        verify_bundle(signed(own, identity="https://example.com/other"), TRUSTED)
    with pytest.raises(SignatureError, match="OIDCIssuer does not match"):
        verify_bundle(signed(own, issuer="https://evil.example.com"), TRUSTED)
    with pytest.raises(SignatureError, match="contains no in-toto statement but text/plain"):
        verify_bundle(signed(own, payload_type="text/plain"), TRUSTED)
    with pytest.raises(SignatureError, match="failed to build timestamp certificate chain"):
        verify_bundle(signed(OwnSigstore()), TRUSTED)
    other = json.loads(signed(own, b'{"a":2}'))
    changed = {**good["dsseEnvelope"], "payload": other["dsseEnvelope"]["payload"]}
    assert "not valid" in refusal(dsseEnvelope=changed)
    entries = other["verificationMaterial"]["tlogEntries"]
    material = {**good["verificationMaterial"], "tlogEntries": entries}
    assert "does not match bundle" in refusal(verificationMaterial=material)


def test_the_trust_root_of_the_package_needs_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the network is used")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert Verifier.production(offline=True) is not None


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sigstore", None)
    monkeypatch.setitem(sys.modules, "sigstore.models", None)
    with pytest.raises(ProvenanceError, match="the extra `sigstore` is not installed"):
        verify_bundle(b"{}", TRUSTED)
