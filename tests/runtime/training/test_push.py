"""An exported model is pushed to a folder or a hub; the token is sent only to the hub."""

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.methods.stage_harness import StageHarness, compile_plan, recipe

from posttrain.runtime.verbs.model_push import MARKER_FILE
from posttrain.spec.plan import Step

pytestmark = pytest.mark.slow

TOKEN = "hf_" + "x7Q" * 9
COMMIT = "c" * 40


def export(push: str, source: str = "base") -> str:
    return recipe(f"out: {{export: {source}, push: {{{push}}}}}")


def failed(bench: StageHarness, text: str) -> Any:
    plan = compile_plan(text)
    step = plan.step("out")
    bench.prepare_step(plan, step)
    assert bench.wait(step) == 1
    return bench.failure(step)


def test_a_folder_beside_the_home_gets_the_files(bench: StageHarness) -> None:
    product = bench.run(export("folder: models/first"))["out"]
    place = bench.home.root.parent / "models" / "first"
    names = {path.name for path in product.files.iterdir()}
    assert {path.name for path in place.iterdir()} == names | {MARKER_FILE}
    assert all((place / name).read_bytes() == (product.files / name).read_bytes() for name in names)
    assert [path.name for path in place.parent.iterdir()] == ["first"]


def test_an_earlier_export_there_is_replaced(bench: StageHarness) -> None:
    bench.run(export("folder: models/twice"))
    bench.run(export("folder: models/twice", source="sft"))
    place = bench.home.root.parent / "models" / "twice"
    assert "## sft: sft" in (place / "README.md").read_text()


def test_what_is_the_users_own_is_never_replaced(bench: StageHarness) -> None:
    place = bench.home.root.parent / "mine"
    place.mkdir()
    (place / "letter").write_text("dear")
    assert "exists and is not an earlier export" in failed(bench, export("folder: mine"))["message"]
    assert (place / "letter").read_text() == "dear"


class FakeHub(ThreadingHTTPServer):
    """The part of the hub's API that a commit to a repository needs."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), HubHandler)
        self.seen: list[tuple[str, str, Any]] = []
        self.files: dict[str, bytes] = {}
        # The uploaded large files by digest.
        self.large: dict[str, bytes] = {}
        self.status = 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


def _mode(path: str) -> str:
    return "lfs" if path.endswith(".safetensors") else "regular"


class HubHandler(BaseHTTPRequestHandler):
    server: FakeHub

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        lines = [json.loads(line) for line in body.splitlines() if line]
        self.server.seen.append((self.path, token, lines))
        if self.server.status != 200:
            return self.say(self.server.status, {"error": "this token may not write"})
        if self.path.endswith("/api/validate-yaml"):
            return self.say(200, {"errors": [], "warnings": []})
        if "/preupload/" in self.path:
            files = [{"path": f["path"], "uploadMode": _mode(f["path"])} for f in lines[0]["files"]]
            return self.say(200, {"files": [{**file, "shouldIgnore": False} for file in files]})
        if self.path.endswith("/info/lfs/objects/batch"):
            return self.say(200, {"transfer": "basic", "objects": self.places(lines[0]["objects"])})
        if "/commit/" in self.path:
            for kind in ("file", "lfsFile"):
                given = [line["value"] for line in lines if line["key"] == kind]
                self.server.files |= {f["path"]: self.content(f) for f in given}
            url = f"{self.server.url}/someone/out/commit/{COMMIT}"
            return self.say(200, {"commitUrl": url, "commitOid": COMMIT, "success": True})
        return self.say(200, {"url": f"{self.server.url}/someone/out"})

    def do_GET(self) -> None:
        self.say(404, {"error": "nothing here"})

    def do_PUT(self) -> None:
        """Receive a large file, as Git LFS sends it."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.path, self.headers.get("Authorization") or "", []))
        self.server.large[self.path.rpartition("/")[2]] = body
        self.say(200, {})

    def places(self, objects: list[Any]) -> list[Any]:
        """Return the upload addresses of large files, like the batch API of Git LFS."""
        return [
            {**one, "actions": {"upload": {"href": f"{self.server.url}/large/{one['oid']}"}}}
            for one in objects
        ]

    def content(self, file: Any) -> bytes:
        if "oid" not in file:
            return base64.b64decode(file["content"])
        found = self.server.large[file["oid"]]
        assert hashlib.sha256(found).hexdigest() == file["oid"]
        return found

    def say(self, status: int, answer: Any) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Suppress the log output."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with FakeHub() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("OUR_TOKEN", TOKEN)
        yield server
        server.shutdown()


_HUB = "hub: someone/out, revision: draft, token: {env: OUR_TOKEN}"


def step_files(bench: StageHarness, step: Step) -> Iterator[Path]:
    """All output files of a step."""
    for root in (bench.home.root, bench.work(step)):
        yield from (path for path in root.rglob("*") if path.is_file())


def test_the_hub_gets_the_files_in_one_commit(bench: StageHarness, hub: FakeHub) -> None:
    plan = compile_plan(export(_HUB))
    step = plan.step("out")
    product = bench.run_step(plan, step)
    assert product.facts["pushed"] == {"hub": "someone/out", "commit": COMMIT}
    assert hub.files == {path.name: path.read_bytes() for path in product.files.iterdir()}
    assert list(hub.large.values()) == [(product.files / "model.safetensors").read_bytes()]
    # Large files go to a separate server, which must not receive the token.
    stored = [token for path, token, _ in hub.seen if path.startswith("/large/")]
    hub.seen = [one for one in hub.seen if not one[0].startswith("/large/")]
    assert stored == [""]
    paths = [path for path, _, _ in hub.seen]
    assert paths[:2] == ["/api/repos/create", "/api/models/someone/out/branch/draft"]
    assert paths[-1].split("?")[0] == "/api/models/someone/out/commit/draft"
    assert hub.seen[0][2][0]["visibility"] == "private"
    assert {token for path, token, _ in hub.seen if "validate" not in path} == {TOKEN}
    assert step.secrets == ("OUR_TOKEN",)
    assert not [path for path in step_files(bench, step) if TOKEN.encode() in path.read_bytes()]


def test_a_hub_that_refuses_is_told_of_in_its_own_words(bench: StageHarness, hub: FakeHub) -> None:
    hub.status = 403
    failure = failed(bench, export(_HUB.replace("draft", "refused")))
    assert "this token may not write" in failure["message"]
    assert failure["advice"] == "use a token with write access"
    assert TOKEN not in json.dumps(failure)
    assert hub.files == {}


def test_a_push_that_failed_is_made_when_the_stage_runs_again(bench: StageHarness, hub: FakeHub) -> None:
    plan = compile_plan(export(_HUB.replace("draft", "again")))
    step = plan.step("out")
    bench.prepare_step(plan, step)
    hub.status = 500
    assert bench.wait(step) == 1
    assert bench.failure(step)["retriable"] is True
    hub.status = 200
    product = bench.run_step(plan, step)
    assert hub.files == {path.name: path.read_bytes() for path in product.files.iterdir()}


def test_a_token_that_is_not_set_is_asked_for(bench: StageHarness) -> None:
    failure = failed(bench, export("hub: someone/out, token: {env: NOT_SET_ANYWHERE}"))
    assert "`NOT_SET_ANYWHERE`" in failure["message"]


def test_only_the_hub_needs_the_network_and_the_name_of_the_token_changes_nothing() -> None:
    folder, first, second, plain = (
        compile_plan(text).step("out")
        for text in (
            export("folder: out"),
            export(_HUB),
            export(_HUB.replace("OUR_TOKEN", "ANOTHER")),
            recipe("out: {export: base}"),
        )
    )
    assert (folder.resources.network, first.resources.network) == (False, True)
    assert first.key == second.key
    assert len({folder.key, first.key, plain.key}) == 3
    assert plain.params == {"merge": True}
