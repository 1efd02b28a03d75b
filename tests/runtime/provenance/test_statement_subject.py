"""Which artifact a statement is about."""

from pathlib import Path

import pytest
from tests.runtime.registry.fake_registry import serve_registry
from tests.ssh_keys import allow, make_key

from posttrain.runtime.provenance.create_statement import Source, recipe_statement
from posttrain.runtime.provenance.dsse_envelope import Envelope
from posttrain.runtime.provenance.envelope_referrers import ENVELOPE_TYPE, attach_envelope
from posttrain.runtime.provenance.provenance_error import ProvenanceError
from posttrain.runtime.provenance.ssh_keygen import TrustedKeys, sign_envelope
from posttrain.runtime.provenance.verify_artifact import check_key, verify_signer
from posttrain.runtime.registry.oci_manifest import EMPTY_CONFIG, MANIFEST_TYPE, ArtifactManifest, describe
from posttrain.runtime.registry.oci_reference import parse_reference
from posttrain.runtime.registry.registry_client import RegistryClient
from posttrain.spec.provenance_statement import Subject, statement_to_json


def test_a_signed_file_is_no_signed_artifact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of a signed product can be the manifest of another artifact."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    key = make_key(tmp_path, "key")
    trusted = TrustedKeys(allowed_signers=allow(tmp_path, ("me@x", "", key)))
    file = ArtifactManifest(artifact_type="x/y", config=EMPTY_CONFIG, layers=()).to_bytes()
    digest = describe(file, MANIFEST_TYPE).digest
    other = Subject(name="product", digest={"sha256": "0" * 64})
    with serve_registry() as fake:
        fake.put_manifest(file, MANIFEST_TYPE)
        reference = parse_reference(f"oci://{fake.address}/a@{digest}")
        own = recipe_statement(Source(name="r", digest=digest, lock={}), "oci://x/a")

        def sign(*subjects: Subject) -> None:
            payload = statement_to_json(own.model_copy(update={"subject": subjects}))
            data = sign_envelope(Envelope(payload=payload, signatures=()), key).to_bytes()
            with RegistryClient(reference) as client:
                attach_envelope(client, describe(file, MANIFEST_TYPE), data, ENVELOPE_TYPE)

        sign(other, *own.subject)
        with pytest.raises(ProvenanceError, match="is about another artifact"):
            verify_signer(reference, trusted)
        sign(*own.subject, other)
        verified = verify_signer(reference, trusted)
    with pytest.raises(ProvenanceError, match="names no key"):
        check_key(verified, None, {})
