"""Authentication, retries, redirects, mirrors and the words of a registry, with a registry in memory."""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runtime.registry.fake_registry import FakeRegistry, serve_registry

from posttrain.runtime.registry.blob_upload import Blob
from posttrain.runtime.registry.oci_manifest import EMPTY_CONFIG, ArtifactManifest, Descriptor
from posttrain.runtime.registry.oci_reference import parse_reference
from posttrain.runtime.registry.registry_client import RegistryClient
from posttrain.runtime.registry.registry_errors import ContentError, RegistryError
from posttrain.runtime.registry.registry_session import RegistrySession

TYPE = "application/vnd.oci.image.manifest.v1+json"


def client_of(state: FakeRegistry) -> RegistryClient:
    return RegistryClient(parse_reference(f"oci://{state.address}/a"))


def blob(state: FakeRegistry, data: bytes) -> Descriptor:
    return Descriptor(media_type="x/y", digest=state.put_blob(data), size=len(data))


def log_in(folder: Path, config: dict[str, object]) -> None:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr(RegistrySession, "_pause", lambda self, seconds: found.append(seconds))
    return found


@pytest.mark.parametrize("auth", ["basic", "bearer"])
def test_the_password_of_docker_is_used(auth: str, fake: FakeRegistry, tmp_path: Path) -> None:
    fake.auth = auth
    log_in(tmp_path / "docker", {"auths": {fake.address: {"auth": "YW5uYTpnZWhlaW0="}}})
    with client_of(fake) as client:
        assert client.read_blob(blob(fake, b"data")) == b"data"
        assert client.read_blob(blob(fake, b"more")) == b"more"
    challenged = [path for _, path, headers in fake.requests if "Authorization" not in headers]
    assert len(challenged) == 1  # the authorization is kept


def test_the_password_of_a_credential_helper_is_used(
    fake: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.auth = "basic"
    helper = tmp_path / "docker-credential-fake"
    helper.write_text('#!/bin/sh\ncat >/dev/null\necho \'{"Username": "anna", "Secret": "geheim"}\'\n')
    helper.chmod(helper.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    log_in(tmp_path / "docker", {"credHelpers": {fake.address: "fake"}})
    with client_of(fake) as client:
        assert client.read_blob(blob(fake, b"data")) == b"data"


def test_a_refusal_has_the_words_of_the_registry(fake: FakeRegistry, tmp_path: Path) -> None:
    fake.auth = "bearer"
    with client_of(fake) as client, pytest.raises(RegistryError, match="DENIED: wrong password") as caught:
        client.get_manifest("v1")
    assert caught.value.is_denied
    assert f"docker login {fake.address}" in caught.value.advice
    fake.auth = ""
    with client_of(fake) as client, pytest.raises(RegistryError, match="MANIFEST_UNKNOWN: no such thing"):
        client.get_manifest("v1")


def test_a_broken_credential_helper_is_named(fake: FakeRegistry, tmp_path: Path) -> None:
    fake.auth = "basic"
    log_in(tmp_path / "docker", {"credHelpers": {fake.address: "that-does-not-exist"}})
    with client_of(fake) as client, pytest.raises(RegistryError) as caught:
        client.get_manifest("v1")
    assert "stored credentials cannot be read" in caught.value.advice


def test_transient_failures_are_retried(fake: FakeRegistry, pauses: list[float]) -> None:
    fake.failures = [(503, b"busy", {}), (429, b"", {"Retry_After": "7"})]
    with client_of(fake) as client:
        assert client.read_blob(blob(fake, b"data")) == b"data"
    assert len(pauses) == 2
    assert pauses[1] == 7


def test_a_lasting_failure_is_reported(fake: FakeRegistry, pauses: list[float]) -> None:
    fake.failures = [(500, b'{"errors": [{"code": "UNKNOWN", "message": "disk full"}]}', {})] * 5
    with client_of(fake) as client, pytest.raises(RegistryError, match="UNKNOWN: disk full") as caught:
        client.get_manifest("v1")
    assert caught.value.retriable
    assert len(pauses) == 4


def test_a_password_is_not_sent_to_another_server(fake: FakeRegistry, tmp_path: Path) -> None:
    log_in(tmp_path / "docker", {"auths": {fake.address: {"auth": "YW5uYTpnZWhlaW0="}}})
    with serve_registry() as store:
        fake.auth, fake.redirect = "basic", store.address
        found = blob(fake, b"data")
        store.put_blob(b"data")
        with client_of(fake) as client:
            assert client.read_blob(found) == b"data"
        assert [headers.get("Authorization") for _, _, headers in store.requests] == [None]


def test_a_download_continues_where_the_connection_broke(fake: FakeRegistry, tmp_path: Path) -> None:
    data = bytes(range(256)) * 4096
    found = blob(fake, data)
    fake.breaks = [300_000, 400_000]
    with client_of(fake) as client:
        client.download_blob(found, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == data
    starts = [headers.get("Range") for _, path, headers in fake.requests if "blobs" in path]
    assert starts[0] is None
    assert len(starts) == 3
    assert all(one is not None and one > "bytes=1" for one in starts[1:])


@pytest.mark.parametrize(
    "served", [b"evil", b"data and more", b"dat"], ids=["other content", "too long", "too short"]
)
def test_a_tampered_blob_is_refused(served: bytes, fake: FakeRegistry, tmp_path: Path) -> None:
    found = blob(fake, b"data")
    fake.served[found.digest] = served
    with client_of(fake) as client:
        with pytest.raises(ContentError, match="digest mismatch"):
            client.read_blob(found)
        with pytest.raises(ContentError, match="digest mismatch"):
            client.download_blob(found, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_tampered_manifest_is_refused(fake: FakeRegistry) -> None:
    digest = fake.put_manifest(b"{}", TYPE)
    fake.manifests[digest] = (TYPE, b'{"evil": 1}')
    with client_of(fake) as client, pytest.raises(ContentError, match="digest mismatch"):
        client.get_manifest(digest)


def test_an_enormous_manifest_is_refused(fake: FakeRegistry) -> None:
    fake.put_manifest(b" " * (5 << 20), TYPE, "v1")
    with client_of(fake) as client, pytest.raises(ContentError, match="larger than 4 MiB"):
        client.get_manifest("v1")


def test_reads_go_to_a_mirror_first_and_writes_to_the_registry(
    fake: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    with serve_registry() as mirror:
        text = f'[[registry]]\nlocation = "{fake.address}"\n'
        for location in ("127.0.0.1:1", f"{mirror.address}/up"):
            text += f'[[registry.mirror]]\nlocation = "{location}"\n'
        (tmp_path / "registries.conf").write_text(text)
        monkeypatch.setenv("CONTAINERS_REGISTRIES_CONF", str(tmp_path / "registries.conf"))
        found = blob(fake, b"data")
        mirror.put_blob(b"data")
        other = blob(fake, b"only in the registry")
        with client_of(fake) as client:
            assert client.read_blob(found) == b"data"
            assert client.read_blob(other) == b"only in the registry"
            client.put_manifest(
                ArtifactManifest(artifact_type="x/y", config=EMPTY_CONFIG, layers=()).to_bytes()
            )
        assert next(path for _, path, _ in mirror.requests) == f"/v2/up/a/blobs/{found.digest}"
        assert {method for method, _, _ in mirror.requests} == {"GET"}
        assert [method for method, _, _ in fake.requests] == ["GET", "PUT"]  # what the mirrors do not have


def test_a_broken_registries_file_is_named(
    fake: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "registries.conf").write_text("[[registry")
    monkeypatch.setenv("CONTAINERS_REGISTRIES_CONF", str(tmp_path / "registries.conf"))
    with pytest.raises(RegistryError, match=r"registries\.conf cannot be read"):
        client_of(fake)


def test_a_proxy_of_the_environment_is_used(fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve_registry() as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://{proxy.address}")
        monkeypatch.setenv("NO_PROXY", "")
        with client_of(fake) as client, pytest.raises(RegistryError, match="MANIFEST_UNKNOWN"):
            client.get_manifest("v1")
        assert [path for _, path, _ in proxy.requests] == [f"http://{fake.address}/v2/a/manifests/v1"]
        assert fake.requests == []


def test_a_cancelled_upload_sends_no_more(fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[bytes] = []
    with client_of(fake) as client:

        def pieces(self: Blob, start: int, end: int) -> Iterator[bytes]:
            for piece in (b"first", b"never"):
                yield piece
                given.append(piece)
                client.cancel()

        monkeypatch.setattr(Blob, "read", pieces)
        with pytest.raises(RegistryError, match="cancelled"):
            client.upload_blob(Blob(digest=f"sha256:{'0' * 64}", size=10))
    assert given == [b"first"]


def test_a_cancelled_request_is_not_retried(fake: FakeRegistry) -> None:
    fake.failures = [(503, b"", {"Retry_After": "50"})] * 2
    with client_of(fake) as client:
        client.cancel()
        with pytest.raises(RegistryError, match="cancelled"):
            client.get_manifest("v1")
    assert len(fake.requests) == 1
