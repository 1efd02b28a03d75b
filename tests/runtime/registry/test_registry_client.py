"""Blobs, manifests and referrers at a real registry; uploads that are interrupted; skopeo as an oracle."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.runtime.registry.fake_registry import FakeRegistry

from posttrain.runtime.registry.blob_upload import Blob
from posttrain.runtime.registry.oci_manifest import (
    EMPTY_BLOB,
    EMPTY_CONFIG,
    ArtifactManifest,
    Descriptor,
    describe,
    digest_of,
)
from posttrain.runtime.registry.oci_reference import parse_reference
from posttrain.runtime.registry.registry_client import RegistryClient
from posttrain.runtime.registry.registry_errors import ContentError

pytestmark = pytest.mark.docker
DATA = os.urandom(1 << 20)


def client_of(registry: str, name: str, chunk_bytes: int = 1 << 26) -> RegistryClient:
    reference = parse_reference(f"oci://{registry}/posttrain-test/{name}-{time.time_ns()}")
    return RegistryClient(reference, chunk_bytes=chunk_bytes)


def blob_of(data: bytes) -> Blob:
    return Blob(digest=digest_of(data), size=len(data), data=data)


def signature_of(subject: Descriptor, kind: str = "x/signature") -> bytes:
    return ArtifactManifest(artifact_type=kind, config=EMPTY_CONFIG, layers=(), subject=subject).to_bytes()


def push_artifact(client: RegistryClient, tag: str | None = None) -> Descriptor:
    client.upload_bytes(EMPTY_BLOB)
    client.upload_bytes(b"text")
    manifest = ArtifactManifest(
        artifact_type="x/y", config=EMPTY_CONFIG, layers=(describe(b"text", "text/plain"),)
    )
    return client.get_manifest(client.put_manifest(manifest.to_bytes(), tag=tag)).descriptor


@pytest.mark.parametrize("chunk_bytes", [1 << 26, 300_000], ids=["at once", "in chunks"])
def test_a_blob_comes_back(chunk_bytes: int, registry: str, tmp_path: Path) -> None:
    with client_of(registry, "blob", chunk_bytes) as client:
        assert client.upload_blob(blob_of(DATA))
        assert not client.upload_blob(blob_of(DATA))  # it is there
        client.download_blob(
            Descriptor(media_type="x/y", digest=digest_of(DATA), size=len(DATA)), tmp_path / "out"
        )
    assert (tmp_path / "out").read_bytes() == DATA


def test_a_blob_of_another_repository_is_mounted(registry: str) -> None:
    with client_of(registry, "from") as first, client_of(registry, "to") as second:
        first.upload_blob(blob_of(DATA))
        assert not second.upload_blob(blob_of(DATA), [first.reference.name])
        assert second.has_blob(digest_of(DATA))
        assert second.upload_blob(blob_of(DATA[1:]), [first.reference.name])  # that has it neither


def test_a_manifest_comes_back_by_digest_and_by_tag(registry: str) -> None:
    with client_of(registry, "manifest") as client:
        pushed = push_artifact(client, "v1")
        assert client.get_manifest("v1").digest == pushed.digest
        assert push_artifact(client, "v2") == pushed
        assert client.find_manifest("v3") is None


def test_a_corrupted_file_is_refused_by_the_registry(registry: str) -> None:
    with client_of(registry, "corrupt") as client, pytest.raises(Exception, match="DIGEST_INVALID"):
        client.upload_blob(Blob(digest=digest_of(b"other"), size=len(DATA), data=DATA))


def test_referrers_are_found_by_the_fallback_tag(registry: str) -> None:
    with client_of(registry, "referrers") as client:
        subject = push_artifact(client)
        assert client.referrers(subject.digest) == []
        first = client.put_manifest(signature_of(subject))
        second = client.put_manifest(signature_of(subject, "x/provenance"))
        client.put_manifest(signature_of(subject))  # again
        assert {one.digest for one in client.referrers(subject.digest)} == {first, second}
        assert [one.digest for one in client.referrers(subject.digest, "x/provenance")] == [second]
        tagged = client.get_manifest(subject.digest.replace(":", "-"))
        assert json.loads(tagged.data)["manifests"][0]["artifactType"].startswith("x/")


def test_referrers_are_found_by_the_api(fake: FakeRegistry) -> None:
    with RegistryClient(parse_reference(f"oci://{fake.address}/a")) as client:
        subject = push_artifact(client)
        digest = client.put_manifest(signature_of(subject))
        assert [one.digest for one in client.referrers(subject.digest, "x/signature")] == [digest]
        assert client.referrers(subject.digest, "x/other") == []
    assert not any(version.startswith("sha256-") for version in fake.manifests)


def test_a_manifest_that_no_registry_accepts_is_not_sent(fake: FakeRegistry) -> None:
    with RegistryClient(parse_reference(f"oci://{fake.address}/a")) as client, pytest.raises(ContentError):
        client.put_manifest(b" " * ((4 << 20) + 1))
    assert fake.requests == []


def test_skopeo_copies_an_artifact_with_its_digest(registry: str, skopeo: Path, tmp_path: Path) -> None:
    with client_of(registry, "skopeo") as client:
        pushed = push_artifact(client, "v1")
        source = f"docker://{registry}/{client.reference.name}"
        for there, back in (
            (f"{source}:v1", f"oci:{tmp_path}/layout:v1"),
            (f"oci:{tmp_path}/layout:v1", f"{source}:v2"),
        ):
            copy = [skopeo, "copy", "--preserve-digests", "--src-tls-verify=false", "--dest-tls-verify=false"]
            done = subprocess.run([*copy, there, back], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
        assert client.get_manifest("v2").digest == pushed.digest


@contextmanager
def buffering_proxy(registry: str, dropped: int = 0, held: int = 0) -> Generator[tuple[str, list[str]]]:
    """A proxy that passes on complete requests only, as servers before registries do.

    It does not pass on one PATCH, counted from 1: it drops the connection, or holds it until the client ends.
    """
    server = socket.create_server(("127.0.0.1", 0))
    methods: list[str] = []

    def serve(client: socket.socket) -> None:
        with client, suppress(OSError):
            data = b""
            while b"\r\n\r\n" not in data:
                if not (piece := client.recv(65536)):
                    return
                data += piece
            head, _, body = data.partition(b"\r\n\r\n")
            methods.append(head.split()[0].decode())
            fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
            length = int(fields.get(b"content-length", 0))
            if methods[-1] == "PATCH" and methods.count("PATCH") in (dropped, held):
                while methods.count("PATCH") == held and client.recv(1 << 20):
                    pass
                return
            while len(body) < length:
                body += client.recv(1 << 20)
            host, _, port = registry.partition(":")
            with socket.create_connection((host, int(port))) as upstream:
                upstream.sendall(head + b"\r\nConnection: close\r\n\r\n" + body)
                while piece := upstream.recv(1 << 16):
                    client.sendall(piece)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield f"127.0.0.1:{server.getsockname()[1]}", methods
    server.close()


def test_an_upload_continues_after_a_broken_connection(registry: str) -> None:
    with (
        buffering_proxy(registry, dropped=3) as (address, methods),
        client_of(address, "broken", 100_000) as client,
    ):
        assert client.upload_blob(blob_of(DATA))
        assert client.has_blob(digest_of(DATA))
    chunks = -(-len(DATA) // 100_000)
    assert methods.count("PATCH") == chunks + 1  # only the broken chunk is sent again
    assert methods.count("POST") == 1


UPLOAD = """
import sys
from pathlib import Path
from posttrain.runtime.registry.blob_upload import Blob
from posttrain.runtime.registry.oci_reference import parse_reference
from posttrain.runtime.registry.registry_client import RegistryClient
path = Path(sys.argv[2])
blob = Blob(digest=sys.argv[3], size=path.stat().st_size, path=path)
with RegistryClient(parse_reference(sys.argv[1]), chunk_bytes=100_000) as client:
    client.upload_blob(blob)
"""


def test_an_upload_continues_after_a_kill(registry: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(DATA)
    name = f"posttrain-test/killed-{time.time_ns()}"
    with buffering_proxy(registry, held=3) as (address, methods):
        command = [sys.executable, "-c", UPLOAD, f"oci://{address}/{name}", str(path), digest_of(DATA)]
        process = subprocess.Popen(command)
        while methods.count("PATCH") < 3 and process.poll() is None:
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        process.wait()
        sent = methods.count("PATCH")
        subprocess.run(command, check=True)
        again = methods.count("PATCH") - sent
    chunks = -(-len(DATA) // 100_000)
    assert sent == 3
    assert again == chunks - 2  # two were received
    with RegistryClient(parse_reference(f"oci://{registry}/{name}")) as client:
        assert client.has_blob(digest_of(DATA))


# getrusage would include the process that started this one: its memory until it executes the program.
MEASURE = (
    UPLOAD.replace("chunk_bytes=100_000", "chunk_bytes=1 << 26")
    + """
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print(int(peak.split()[1]) // 1024)
"""
)


@pytest.mark.slow
def test_a_large_file_is_streamed(registry: str, tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(2 << 30)
    hashed = subprocess.run(["sha256sum", path], capture_output=True, text=True, check=True).stdout.split()[0]
    name = f"posttrain-test/large-{time.time_ns()}"
    command = [sys.executable, "-c", MEASURE, f"oci://{registry}/{name}", str(path), f"sha256:{hashed}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 200
    with RegistryClient(parse_reference(f"oci://{registry}/{name}")) as client:
        assert client.has_blob(f"sha256:{hashed}")
