"""An exported model is pushed to a folder or a hub; the token is sent only to the hub."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.fake_hub import COMMIT, FakeHub
from tests.runtime.methods.stage_harness import StageHarness, compile_plan, recipe

from posttrain.runtime.verbs.model_push import MARKER_FILE
from posttrain.spec.plan import Step

pytestmark = pytest.mark.slow

TOKEN = "hf_" + "x7Q" * 9


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
