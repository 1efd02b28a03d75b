"""Images before a run: an engine at a socket of this test, and a registry on this machine, answer."""

import hashlib
import json
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from tests.runtime.preflight.local_services import LocalServices
from tests.runtime.preflight.preflight_recipe import check

CONFIG = {"os": "linux", "architecture": "amd64"}
_CONFIG_DATA = json.dumps(CONFIG).encode()
CONFIG_DIGEST = "sha256:" + hashlib.sha256(_CONFIG_DATA).hexdigest()
_CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
CONFIG_DESCRIPTOR = {"mediaType": _CONFIG_TYPE, "digest": CONFIG_DIGEST, "size": len(_CONFIG_DATA)}
MANIFEST = {"schemaVersion": 2, "config": CONFIG_DESCRIPTOR, "layers": []}
_MANIFEST_DATA = json.dumps(MANIFEST).encode()
DIGEST = "sha256:" + hashlib.sha256(_MANIFEST_DATA).hexdigest()


class Engine:
    """A Docker engine with these images, by name."""

    def __init__(self, socket: Path) -> None:
        self.address = f"unix://{socket}"
        self.images: set[str] = set()
        engine = self

        class Handler(BaseHTTPRequestHandler):
            def address_string(self) -> str:
                return "client"

            def do_GET(self) -> None:
                path = unquote(self.path.partition("?")[0])
                if path.endswith("/version"):
                    return self.answer(200, {"ApiVersion": "1.45", "MinAPIVersion": "1.24"})
                name = path.partition("/images/")[2].removesuffix("/json")
                if name == "json":
                    return self.answer(200, [])
                found = name in engine.images
                return self.answer(
                    200 if found else 404, {"Id": "sha256:1"} if found else {"message": "No such image"}
                )

            def answer(self, status: int, body: Any) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                """Suppress the log output."""

        self.server = socketserver.ThreadingUnixStreamServer(str(socket), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    found = Engine(tmp_path / "docker.sock")
    monkeypatch.setenv("DOCKER_HOST", found.address)
    yield found
    found.server.shutdown()
    found.server.server_close()


def recipe(image: str) -> str:
    return (
        "recipe: 1\nname: boxed\nstages:\n"
        f'  one: {{script: [ls], container: {{image: "{image}"}}}}\n'
        f'  two: {{script: [ls, "-l"], container: {{image: "{image}"}}}}\n'
    )


def test_without_an_engine_every_step_in_a_container_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/absent.sock")
    found = check(tmp_path, recipe(f"registry.example/none@{DIGEST}"))
    assert [(one.severity, one.check, one.steps) for one in found] == [
        ("error", "image", ("one",)),
        ("error", "image", ("two",)),
    ]
    assert "absent.sock: [Errno 2] No such file or directory" in found[0].cause
    assert found[0].place.line == 4


def test_an_image_on_this_machine_is_fine(engine: Engine, services: LocalServices, tmp_path: Path) -> None:
    image = f"{services.url.removeprefix('http://')}/tools/image@{DIGEST}"
    engine.images.add(image)
    assert check(tmp_path, recipe(image)) == ()
    assert services.requests == [], "the registry is not asked"


def test_an_image_that_can_be_pulled_is_fine(engine: Engine, services: LocalServices, tmp_path: Path) -> None:
    services.answers[f"/v2/tools/image/manifests/{DIGEST}"] = (200, _MANIFEST_DATA)
    services.answers[f"/v2/tools/image/blobs/{CONFIG_DIGEST}"] = (200, _CONFIG_DATA)
    assert check(tmp_path, recipe(f"{services.url.removeprefix('http://')}/tools/image@{DIGEST}")) == ()


def test_an_image_that_the_registry_lacks_is_an_error(
    engine: Engine, services: LocalServices, tmp_path: Path
) -> None:
    found = check(tmp_path, recipe(f"{services.url.removeprefix('http://')}/tools/image@{DIGEST}"))
    assert [one.severity for one in found] == ["error", "error"]
    assert "is not on this machine: " in found[0].cause
    assert "refused tools/image: status 404" in found[0].cause


def test_a_registry_that_cannot_be_reached_is_a_warning(engine: Engine, tmp_path: Path) -> None:
    found = check(tmp_path, recipe(f"127.0.0.1:9/tools/image@{DIGEST}"))
    assert {one.severity for one in found} == {"warning"}
