"""Repositories on the hub before a run: a local server answers as the hub does."""

from pathlib import Path

import pytest
from tests.runtime.preflight.local_services import Answer, LocalServices
from tests.runtime.preflight.preflight_recipe import HEAD, brief, check

RECIPE = """\
recipe: 1
name: hub
models:
  base: {from: example/model, revision: v1}
datasets:
  posts:
    from: {hub: {name: example/posts, revision: v2, columns: {prompt: text, completion: text}}}
stages:
  tune: {train: sft, model: base, data: posts, params: {max_steps: 2, batch_size: 2}}
"""
PUSH = (
    HEAD
    + """\
stages:
  tune: {train: sft, model: small, data: sums, params: {max_steps: 2, batch_size: 2}}
  out: {export: tune, push: {hub: example/out, token: {env: OUR_TOKEN}}}
"""
)
COMMIT = "0" * 40


def test_repositories_that_exist_are_fine(services: LocalServices, tmp_path: Path) -> None:
    services.add_repository("model", "example/model", "v1")
    services.add_repository("dataset", "example/posts", "v2")
    assert check(tmp_path, RECIPE) == ()
    # The library also asks for a list of its own.
    assert {one for one in services.requests if "example" in one} == {
        "GET /api/models/example/model/revision/v1",
        "GET /api/datasets/example/posts/revision/v2",
    }


def test_missing_repositories_and_revisions_are_errors(services: LocalServices, tmp_path: Path) -> None:
    services.add_repository("dataset", "example/posts", "main")
    found = check(tmp_path, RECIPE)
    assert brief(found) == [
        ("error", "hub", "the model `example/model` is not on the Hub"),
        ("error", "hub", "the dataset `example/posts` has no revision `v2`"),
    ]
    assert [(one.place.line, one.steps) for one in found] == [
        (4, ("models.base",)),
        (6, ("datasets.posts",)),
    ]


def test_a_gated_repository_needs_a_token_with_access(
    services: LocalServices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def authorize(token: str) -> Answer:
        return (200, {}) if token == "Bearer granted" else (403, {"error": "request access"})

    services.add_repository("model", "example/model", "v1", gated="manual")
    services.add_repository("dataset", "example/posts", "v2")
    services.answers["/api/models/example/model/auth-check"] = authorize
    services.error_codes["/api/models/example/model/auth-check"] = "GatedRepo"
    (found,) = check(tmp_path, RECIPE)
    assert found.cause == "the model `example/model` is gated, and the token does not permit access to it"
    monkeypatch.setenv("HF_TOKEN", "granted")
    assert check(tmp_path, RECIPE) == ()


@pytest.mark.parametrize("status", [429, 503])
def test_a_hub_that_is_overloaded_is_a_warning(status: int, services: LocalServices, tmp_path: Path) -> None:
    services.add_repository("dataset", "example/posts", "v2")
    services.answers["/api/models/example/model/revision/v1"] = (status, {"error": "later"})
    (found,) = check(tmp_path, RECIPE)
    assert (found.severity, found.check) == ("warning", "hub")


def test_a_hub_that_cannot_be_reached_is_an_error(
    services: LocalServices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    found = check(tmp_path, RECIPE)
    assert [one.severity for one in found] == ["error", "error"]
    assert "Connection refused" in found[0].cause


@pytest.mark.parametrize("cached", [True, False])
def test_an_unreachable_hub_is_a_warning_for_what_the_cache_has(
    cached: bool, services: LocalServices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    monkeypatch.setattr("huggingface_hub.file_download.HF_HUB_CACHE", str(cache), raising=False)
    if cached:
        folder = cache / "models--example--words" / "snapshots" / COMMIT
        folder.mkdir(parents=True)
        (folder / "tokenizer_config.json").write_text("{}")
    own = HEAD.replace("{init: characters}", f"{{from: example/words, revision: '{COMMIT}'}}") + (
        "stages:\n  tune: {train: sft, model: small, data: sums, params: {max_steps: 2, batch_size: 2}}\n"
    )
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    (found,) = check(tmp_path, own)
    assert found.severity == ("warning" if cached else "error")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert [one.severity for one in check(tmp_path, own)] == ([] if cached else ["error"])


def test_offline_mode_sends_no_request(
    services: LocalServices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    found = check(tmp_path, RECIPE)
    assert [one for one in services.requests if "example" in one] == []
    assert found[0].cause == "the model `example/model` must be downloaded, and HF_HUB_OFFLINE forbids it"


@pytest.mark.parametrize(
    ("token", "cause"),
    [
        ("", "the environment variable OUR_TOKEN, the token for a push to `example/out`, is not set"),
        ("unknown", "the token in OUR_TOKEN does not permit a push to `example/out`"),
        ("reader", "the token in OUR_TOKEN does not permit a push to `example/out`"),
        ("writer", ""),
    ],
)
def test_the_token_of_a_push(
    token: str, cause: str, services: LocalServices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def who(sent: str) -> Answer:
        return (401, {"error": "Invalid credentials"}) if sent == "Bearer unknown" else (200, {"name": "us"})

    def authorize(sent: str) -> Answer:
        return (200, {}) if sent == "Bearer writer" else (403, {"error": "write access required"})

    services.answers["/api/whoami-v2"] = who
    services.answers["/api/models/example/out/auth-check/write"] = authorize
    services.answers["/api/models/example/out"] = (200, {})
    monkeypatch.setenv("OUR_TOKEN", token)
    found = check(tmp_path, PUSH)
    assert len(found) == (1 if cause else 0)
    assert not cause or found[0].cause.startswith(cause)


def test_a_repository_that_a_push_creates_is_fine(
    services: LocalServices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.answers["/api/whoami-v2"] = (200, {"name": "us"})
    monkeypatch.setenv("OUR_TOKEN", "writer")
    assert check(tmp_path, PUSH) == ()
