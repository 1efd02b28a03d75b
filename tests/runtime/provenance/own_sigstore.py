"""A Sigstore of the tests: an authority, a certificate log and a transparency log, with keys of their own.

It issues bundles as a CI job gets them, without a network: the certificate has the identity and a timestamp
of the certificate log, and the transparency log has one entry, the signature.
"""

import base64
import hashlib
import json
import struct
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from posttrain.runtime.provenance.dsse_envelope import encode_for_signing
from posttrain.runtime.provenance.sigstore_bundle import BUNDLE_TYPE

STATEMENT = "application/vnd.in-toto+json"
_ISSUER = ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
_TIMESTAMPS = ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
_START = datetime(2025, 1, 1, tzinfo=UTC)
_SIGNED = int(_START.timestamp()) + 60


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def compact(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


class Log:
    """A log with a key."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.public = self.key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        self.id = hashlib.sha256(self.public).digest()

    def sign(self, data: bytes) -> bytes:
        return self.key.sign(data, ec.ECDSA(hashes.SHA256()))

    def to_json(self) -> dict[str, Any]:
        key = {
            "rawBytes": encode(self.public),
            "keyDetails": "PKIX_ECDSA_P256_SHA_256",
            "validFor": {"start": "2024-01-01T00:00:00Z"},
        }
        return {
            "baseUrl": "https://log.example.com",
            "hashAlgorithm": "SHA2_256",
            "publicKey": key,
            "logId": {"keyId": encode(self.id)},
        }


class OwnSigstore:
    def __init__(self) -> None:
        self.certificates, self.entries = Log(), Log()
        self.key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        usage = _usage(key_cert_sign=True, crl_sign=True)
        self.root = (
            x509.CertificateBuilder(name, name, self.key.public_key(), 1, _START, _START + timedelta(3650))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
            .add_extension(usage, True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self.key.public_key()), False)
            .sign(self.key, hashes.SHA256())
        )

    def trusted_root(self) -> bytes:
        authority = {
            "subject": {"organization": "tests", "commonName": "authority"},
            "uri": "https://authority.example.com",
            "certChain": {"certificates": [{"rawBytes": encode(self.root.public_bytes(Encoding.DER))}]},
            "validFor": {"start": "2024-01-01T00:00:00Z"},
        }
        return compact(
            {
                "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
                "tlogs": [self.entries.to_json()],
                "certificateAuthorities": [authority],
                "ctlogs": [self.certificates.to_json()],
                "timestampAuthorities": [],
            }
        )

    def sign(
        self, payload: bytes, identity: str, issuer: str, payload_type: str = STATEMENT
    ) -> dict[str, Any]:
        """A bundle, as JSON."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._certificate(key.public_key(), identity, issuer)
        signature = key.sign(encode_for_signing(payload_type, payload), ec.ECDSA(hashes.SHA256()))
        entry = self._entry(payload, signature, certificate.public_bytes(Encoding.PEM))
        raw = encode(certificate.public_bytes(Encoding.DER))
        return {
            "mediaType": BUNDLE_TYPE,
            "verificationMaterial": {"certificate": {"rawBytes": raw}, "tlogEntries": [entry]},
            "dsseEnvelope": {
                "payload": encode(payload),
                "payloadType": payload_type,
                "signatures": [{"sig": encode(signature)}],
            },
        }

    def _certificate(self, key: ec.EllipticCurvePublicKey, identity: str, issuer: str) -> x509.Certificate:
        """A certificate of ten minutes, with the timestamp of the certificate log."""
        names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(identity)])
        builder = (
            x509.CertificateBuilder(
                self.root.subject, x509.Name([]), key, 2, _START, _START + timedelta(minutes=10)
            )
            .add_extension(_usage(digital_signature=True), True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), False)
            .add_extension(names, True)
            .add_extension(x509.UnrecognizedExtension(_ISSUER, issuer.encode()), False)
        )
        content = builder.sign(self.key, hashes.SHA256()).tbs_certificate_bytes
        timestamp = self._timestamp(content)
        extension = x509.UnrecognizedExtension(_TIMESTAMPS, timestamp)
        return builder.add_extension(extension, False).sign(self.key, hashes.SHA256())

    def _timestamp(self, certificate: bytes) -> bytes:
        """The extension of RFC 6962 with one timestamp of a certificate."""
        time = struct.pack("!Q", _SIGNED * 1000)
        root = self.key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        entry = hashlib.sha256(root).digest() + len(certificate).to_bytes(3, "big") + certificate
        signature = self.certificates.sign(b"\0\0" + time + b"\0\1" + entry + b"\0\0")
        signed = b"\4\3" + struct.pack("!H", len(signature)) + signature
        one = b"\0" + self.certificates.id + time + b"\0\0" + signed
        listed = struct.pack("!H", len(one)) + one
        whole = struct.pack("!H", len(listed)) + listed
        length = bytes([len(whole)]) if len(whole) < 128 else b"\x81" + bytes([len(whole)])
        return b"\4" + length + whole

    def _entry(self, payload: bytes, signature: bytes, certificate: bytes) -> dict[str, Any]:
        """The entry of the transparency log, its only one: its hash is the root of the tree."""
        signed = {"signature": encode(signature), "verifier": encode(certificate)}
        digest = {"algorithm": "sha256", "value": hashlib.sha256(payload).hexdigest()}
        spec = {"envelopeHash": digest, "payloadHash": digest, "signatures": [signed]}
        body = compact({"apiVersion": "0.0.1", "kind": "dsse", "spec": spec})
        root = hashlib.sha256(b"\0" + body).digest()
        note = f"log.example.com\n1\n{encode(root)}\n"
        noted = encode(self.entries.id[:4] + self.entries.sign(note.encode()))
        promised = {
            "body": encode(body),
            "integratedTime": _SIGNED,
            "logID": self.entries.id.hex(),
            "logIndex": 0,
        }
        return {
            "logIndex": "0",
            "logId": {"keyId": encode(self.entries.id)},
            "kindVersion": {"kind": "dsse", "version": "0.0.1"},
            "integratedTime": str(_SIGNED),
            "inclusionPromise": {"signedEntryTimestamp": encode(self.entries.sign(compact(promised)))},
            "inclusionProof": {
                "logIndex": "0",
                "rootHash": encode(root),
                "treeSize": "1",
                "hashes": [],
                "checkpoint": {"envelope": f"{note}\n\u2014 log.example.com {noted}\n"},
            },
            "canonicalizedBody": encode(body),
        }


def _usage(**allowed: bool) -> x509.KeyUsage:
    names = (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
        "encipher_only",
        "decipher_only",
    )
    return x509.KeyUsage(**{name: allowed.get(name, False) for name in names})
