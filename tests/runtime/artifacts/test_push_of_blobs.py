"""The blobs of an artifact are uploaded several at a time; the first failure ends all uploads."""

import threading
from pathlib import Path

import pytest
from tests.runtime.registry.fake_registry import FakeRegistry, serve_registry

from posttrain.runtime.artifacts.packed_artifact import PackedArtifact, bytes_blob, push_artifact
from posttrain.runtime.registry.blob_upload import Blob
from posttrain.runtime.registry.oci_manifest import EMPTY_CONFIG, ArtifactManifest
from posttrain.runtime.registry.oci_reference import parse_reference
from posttrain.runtime.registry.registry_client import RegistryClient

MANIFEST = ArtifactManifest(artifact_type="x/y", config=EMPTY_CONFIG, layers=()).to_bytes()


def packed(*contents: bytes) -> PackedArtifact:
    return PackedArtifact(manifest=MANIFEST, blobs=tuple(map(bytes_blob, contents)))


def client_of(state: FakeRegistry) -> RegistryClient:
    return RegistryClient(parse_reference(f"oci://{state.address}/a"))


@pytest.fixture(autouse=True)
def user_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))


def test_blobs_are_uploaded_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    together, upload = threading.Barrier(4), RegistryClient.upload_blob

    def wait_and_upload(self: RegistryClient, blob: Blob, mount_from: tuple[str, ...] = ()) -> bool:
        together.wait(timeout=60)
        return upload(self, blob, mount_from)

    monkeypatch.setattr(RegistryClient, "upload_blob", wait_and_upload)
    with serve_registry() as state, client_of(state) as client:
        existing = state.put_blob(b"aa")
        pushed = push_artifact(client, packed(b"aa", b"b", b"b", b"ccc", b"dddd"), ["v1"])
        assert (pushed.sent_bytes, pushed.existing_bytes) == (8, 2)
        assert sorted(state.blobs.values()) == [b"aa", b"b", b"ccc", b"dddd"]
        assert existing in state.blobs
        assert state.manifests["v1"][1] == MANIFEST


def test_the_first_failure_ends_all_uploads(monkeypatch: pytest.MonkeyPatch) -> None:
    cancelled = threading.Event()
    ended: list[str] = []

    def upload(self: RegistryClient, blob: Blob, mount_from: tuple[str, ...] = ()) -> bool:
        if blob.data == b"bad":
            raise FileNotFoundError("file of the product")
        assert cancelled.wait(timeout=60)
        ended.append(blob.digest)
        return True

    monkeypatch.setattr(RegistryClient, "upload_blob", upload)
    monkeypatch.setattr(RegistryClient, "cancel", lambda self: cancelled.set())
    contents = [b"1", b"2", b"3", b"bad", *(b"%d" % n for n in range(10, 40))]
    with serve_registry() as state, client_of(state) as client:
        with pytest.raises(FileNotFoundError, match="file of the product"):
            push_artifact(client, packed(*contents), ["v1"])
        assert len(ended) <= 7  # those in progress; a thread can begin another one before they are dropped
        assert state.manifests == {}
