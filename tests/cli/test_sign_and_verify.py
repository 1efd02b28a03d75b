"""`recipe sign` and `recipe verify oci://...` with a real registry, ssh-keygen and recipes."""

import base64
import json
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner
from sigstore.models import TrustedRoot
from sigstore.verify import Verifier
from tests.cli.publisher import Publisher, attach, read_envelopes, read_statement, sign_changed
from tests.runtime.provenance.own_sigstore import OwnSigstore
from tests.ssh_keys import allow, certify, make_key, public_key

from posttrain.cli.main import main
from posttrain.runtime.provenance import sigstore_bundle
from posttrain.runtime.provenance.dsse_envelope import Envelope, parse_envelope
from posttrain.runtime.provenance.envelope_referrers import ENVELOPE_TYPE
from posttrain.runtime.provenance.ssh_keygen import sign_envelope
from posttrain.runtime.registry.oci_manifest import parse_manifest
from posttrain.runtime.registry.oci_reference import parse_reference
from posttrain.runtime.registry.registry_client import RegistryClient


def test_a_signed_product_is_verified(publisher: Publisher, product: str) -> None:
    attached = publisher.signed(product)
    shown = publisher.verify(f"{publisher.repository}:1")
    assert shown.exit_code == 0, shown.output
    lines = shown.output.splitlines()
    assert lines[0].startswith("signer: me@x (SHA256:")
    assert lines[1].startswith("digests: 4 files, ")
    assert lines[2].startswith("recipe: programs, sha256:")
    assert lines[3].endswith("of `double` follows from the recipe and its lock")
    assert lines[4] == f"{product} is verified"
    assert publisher.signed(product) == attached  # signing again changes nothing
    assert len(read_envelopes(product)) == 1


def test_the_statement_is_in_toto_and_slsa(publisher: Publisher, product: str) -> None:
    publisher.signed(product)
    (data,) = read_envelopes(product)
    statement = json.loads(parse_envelope(data).payload)
    assert data == json.dumps(json.loads(data), sort_keys=True, separators=(",", ":")).encode()
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    artifact, file = statement["subject"]
    assert artifact == {
        "name": publisher.repository,
        "digest": {"sha256": product.rpartition(":")[2]},
    }
    assert file["name"] == "count"
    build = statement["predicate"]["buildDefinition"]
    assert build["buildType"] == "urn:posttrain:build:step:v1"
    assert build["externalParameters"]["step"] == "double"
    names = [one["name"] for one in build["resolvedDependencies"]]
    assert names == ["file words.txt", "step count"]
    details = statement["predicate"]["runDetails"]
    assert details["builder"]["version"].keys() == {"posttrain"}
    assert details["metadata"]["invocationId"].endswith("-programs")
    assert details["metadata"]["startedOn"] <= details["metadata"]["finishedOn"]
    assert details["posttrain_launch"]["processes"] == 1
    assert details["posttrain_hardware"]["architecture"]


def test_the_envelope_is_a_referrer_with_the_fallback_tag(publisher: Publisher, product: str) -> None:
    attached = publisher.signed(product)
    digest = product.rpartition("@")[2]
    with RegistryClient(parse_reference(f"{publisher.repository}:{digest.replace(':', '-')}")) as client:
        index = json.loads(client.get_manifest(client.reference.version).data)
        (entry,) = [one for one in index["manifests"] if one["artifactType"] == ENVELOPE_TYPE]
        assert attached == f"{publisher.repository}@{entry['digest']}"
        manifest = parse_manifest(client.get_manifest(entry["digest"]).data)
    assert manifest.subject is not None
    assert manifest.subject.digest == digest
    assert manifest.annotations == {"in-toto.io/predicate-type": "https://slsa.dev/provenance/v1"}


def test_a_signed_recipe_is_verified(publisher: Publisher) -> None:
    publisher.lock()
    recipe = publisher.push(str(publisher.recipe))
    publisher.signed(recipe)
    assert (
        read_statement(recipe)["predicate"]["buildDefinition"]["buildType"] == "urn:posttrain:build:recipe:v1"
    )
    shown = publisher.verify(recipe)
    assert shown.exit_code == 0, shown.output
    assert "follows from" not in shown.output


def test_profiles_belong_to_the_statement(publisher: Publisher) -> None:
    publisher.run("--profile", "long")
    product = publisher.push("double")
    refused = publisher.sign(product)
    assert refused.exit_code == 1
    assert "the published recipe has no step with the key" in refused.output
    publisher.signed(product, "--profile", "long")
    assert publisher.verify(product).exit_code == 0


# Refused


def refused(publisher: Publisher, artifact: str, *options: str) -> str:
    ended = publisher.verify(artifact, *options)
    assert ended.exit_code == 1, ended.output
    return ended.output


def test_an_artifact_without_a_signature_is_refused(publisher: Publisher, product: str) -> None:
    assert "has no signed provenance" in refused(publisher, product)


def test_keys_that_do_not_count_are_refused(publisher: Publisher, product: str) -> None:
    publisher.signed(product)
    other = make_key(publisher.folder, "other")
    allow(publisher.folder, ("me@x", "", other))
    assert "its signer is not trusted" in refused(publisher, product)
    allow(publisher.folder, ("me@x", 'valid-before="20200101"', publisher.key))
    assert "has expired in" in refused(publisher, product)
    assert publisher.verify(product, "--verify-time", "20191231").exit_code == 0
    allow(publisher.folder, ("me@x", "", publisher.key))
    (publisher.folder / "revoked_keys").write_text(public_key(publisher.key) + "\n")
    assert "is revoked by" in refused(publisher, product)
    publisher.allowed.unlink()
    assert "no signer is trusted" in refused(publisher, product)


def test_a_changed_statement_is_refused(publisher: Publisher, product: str) -> None:
    publisher.signed(product)
    (data,) = read_envelopes(product)
    envelope = parse_envelope(data)
    changed = envelope.payload.replace(b'"double"', b'"triple"')
    assert changed != envelope.payload
    other = publisher.push("count")
    attach(other, Envelope(payload=changed, signatures=envelope.signatures))
    assert "the statement was changed" in refused(publisher, other)


def test_the_statement_of_another_product_is_refused(publisher: Publisher, product: str) -> None:
    publisher.signed(product)
    (data,) = read_envelopes(product)
    other = publisher.push("count")
    attach(other, parse_envelope(data))
    assert "the signed statement is about another artifact" in refused(publisher, other)


def first(values: list[Any]) -> list[Any]:
    return values[:1]


def test_a_statement_counts_for_its_content_only(publisher: Publisher, product: str) -> None:
    """A recipe, a lock or a product that somebody has put under the tag of a signed one."""
    publisher.signed(product)
    recipe = publisher.push(str(publisher.recipe))
    publisher.signed(recipe)
    assert "recipe: programs" in publisher.verify(f"{publisher.repository}:1").output
    (publisher.recipe / "words.txt").write_text("another\n")
    publisher.lock()
    exchanged = publisher.push(str(publisher.recipe))
    assert exchanged != recipe
    assert "has no signed provenance" in refused(publisher, f"{publisher.repository}:1")
    for other in (recipe, product):  # replayed
        (data,) = read_envelopes(other)
        attach(exchanged, parse_envelope(data))
    shown = refused(publisher, f"{publisher.repository}:1")
    assert shown.count("is about another artifact") == 2
    assert publisher.verify(recipe).exit_code == publisher.verify(product).exit_code == 0


def test_the_recipe_of_a_product_cannot_be_exchanged(publisher: Publisher, product: str) -> None:
    """The artifact of a product names another recipe than the one that was signed."""
    publisher.signed(product)
    (publisher.recipe / "words.txt").write_text("another recipe\n")
    publisher.lock()
    other = publisher.push(str(publisher.recipe))
    with RegistryClient(parse_reference(product)) as client:
        found = parse_manifest(client.get_manifest(client.reference.version).data)
        subject = client.get_manifest(other.rpartition("@")[2]).descriptor
        digest = client.put_manifest(replace(found, subject=subject).to_bytes(), tag="1")
    exchanged = f"{publisher.repository}@{digest}"
    (data,) = read_envelopes(product)
    attach(exchanged, parse_envelope(data))
    assert "is about another artifact" in refused(publisher, exchanged)
    evil = json.loads(parse_envelope(data).payload)
    evil["subject"][0]["digest"]["sha256"] = digest.removeprefix("sha256:")
    payload = json.dumps(evil).encode()
    attach(exchanged, sign_envelope(Envelope(payload=payload, signatures=()), publisher.key))
    assert "name different recipes" in refused(publisher, exchanged)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"predicate/buildDefinition/externalParameters/step": None}, "its statement is about a recipe"),
        (
            {"predicate/buildDefinition/externalParameters/recipe/digest/sha256": "0" * 64},
            "the artifact and its statement name different recipes",
        ),
        ({"subject": first}, "the file count of the artifact is not signed"),
        (
            {"predicate/buildDefinition/externalParameters/settings": ["seed=9"]},
            "does not follow from the recipe and its lock: params.seed, input.number differ",
        ),
        (
            {"predicate/buildDefinition/externalParameters/profiles": ["long"]},
            "does not follow from the recipe and its lock: params.command differs",
        ),
        (
            {"predicate/buildDefinition/internalParameters/key": "0" * 64},
            "the artifact and its statement name different keys",
        ),
        (
            {"predicate/buildDefinition/externalParameters/step": "triple"},
            "the plan of the published recipe has no step `triple`",
        ),
        ({"subject/1/name": "other"}, "the signed file other is not in the artifact"),
        ({"predicateType": "https://example.com/x"}, "the signed statement is not valid"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_statement_that_does_not_hold_is_refused(
    publisher: Publisher, product: str, change: Mapping[str, Any], message: str
) -> None:
    """Although a trusted key has signed it."""
    publisher.signed(product)
    # The good statement does not count: the key that signed it is not trusted any more.
    other = make_key(publisher.folder, "other")
    sign_changed(product, change, other)
    allow(publisher.folder, ("other@x", "", other))
    assert message in refused(publisher, product)


def test_a_recipe_without_a_lock_cannot_be_signed(publisher: Publisher) -> None:
    recipe = publisher.push(str(publisher.recipe))
    ended = publisher.sign(recipe)
    assert ended.exit_code == 1
    assert "the recipe was published without a lock" in ended.output


def test_a_home_without_the_product_cannot_sign(publisher: Publisher, product: str) -> None:
    publisher.home = publisher.folder / "empty"
    ended = publisher.sign(product)
    assert ended.exit_code == 1
    assert "has no product of `double` with the key of this recipe and lock" in ended.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sign", "oci://x.test/a"), "name either --key FILE or --sigstore"),
        (("sign", "oci://x.test/a", "--key", "k", "--sigstore"), "name either --key FILE or --sigstore"),
        (("verify", "oci://x.test/a", "--repair"), "--repair is for a home"),
        (("verify", "oci://x.test/a", "--revoked-keys", "none"), "no such file: none"),
        (("verify", "oci://x.test/a", "--verify-time", "soon"), "--verify-time takes YYYYMMDD"),
        (("verify", "oci://x.test/a", "--certificate-identity", "a"), "belong together"),
        (("verify", "nothing"), "is not a reference"),
    ],
)
def test_invalid_options_are_usage_errors(arguments: tuple[str, ...], message: str) -> None:
    ended = CliRunner().invoke(main, list(arguments))
    assert ended.exit_code == 2
    assert message in ended.output


def test_git_uses_the_same_files(publisher: Publisher, tmp_path: Path) -> None:
    """The list of allowed signers is that of `git config gpg.ssh.allowedSignersFile`."""
    allowed = allow(tmp_path, ("me@x", 'namespaces="git,posttrain"', publisher.key))
    git = ["git", "-c", "gpg.format=ssh", "-c", f"gpg.ssh.allowedSignersFile={allowed}"]
    git += ["-c", f"user.signingKey={publisher.key}", "-c", "user.name=x", "-c", "user.email=me@x"]
    folder = tmp_path / "repository"
    folder.mkdir()
    subprocess.run([*git, "init", "-q"], cwd=folder, check=True)
    subprocess.run([*git, "commit", "-q", "-S", "--allow-empty", "-m", "x"], cwd=folder, check=True)
    subprocess.run([*git, "verify-commit", "HEAD"], cwd=folder, check=True, capture_output=True)
    publisher.run()
    product = publisher.push("double")
    publisher.signed(product)
    assert publisher.verify(product).exit_code == 0
    assert base64.b64decode(json.loads(read_envelopes(product)[0])["payload"]).startswith(b"{")


def test_a_certificate_is_enough(publisher: Publisher, product: str) -> None:
    """As `ssh-keygen -s` makes it: those who verify list the authority once, and no key of a person."""
    authority = make_key(publisher.folder, "authority")
    certified = certify(publisher.key, authority, "ada@x", "+1h")
    assert publisher.sign(product, key=certified).exit_code == 0
    allow(publisher.folder, ("*@x", 'cert-authority,namespaces="posttrain"', authority))
    shown = publisher.verify(product)
    assert shown.exit_code == 0, shown.output
    assert shown.output.startswith("signer: ada@x (SHA256:")
    allow(publisher.folder, ("*@y", "cert-authority", authority))
    assert "its signer is not trusted" in refused(publisher, product)


def test_the_identity_of_a_ci_job_is_enough(
    publisher: Publisher, product: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With services of Sigstore that have keys of their own."""
    services, root = OwnSigstore(), tmp_path / "trusted_root.json"
    root.write_bytes(services.trusted_root())
    verifier = Verifier(trusted_root=TrustedRoot.from_file(str(root)))
    monkeypatch.setattr(Verifier, "production", Mock(return_value=verifier))
    identity = ("https://example.com/workflow", "https://example.com")

    def sign(payload: bytes) -> tuple[bytes, str]:
        return json.dumps(services.sign(payload, *identity)).encode(), identity[0]

    monkeypatch.setattr(sigstore_bundle, "sign_bundle", sign)
    done = publisher.recipe_command("sign", product, "--sigstore", "--home", str(publisher.home))
    assert done.exit_code == 0, done.output
    options = ("--certificate-identity", identity[0], "--certificate-oidc-issuer", identity[1])
    shown = publisher.verify(product, *options)
    assert shown.exit_code == 0, shown.output
    assert shown.output.startswith(f"signer: {identity[0]} ({identity[1]})")
    other = ("--certificate-identity", "https://example.com/other", "--certificate-oidc-issuer", identity[1])
    assert "the Sigstore bundle is not valid" in refused(publisher, product, *other)
    assert "has no signed provenance" in refused(publisher, product)  # no SSH key has signed
