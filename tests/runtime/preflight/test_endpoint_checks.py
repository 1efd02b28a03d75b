"""Endpoints before a run: a real server on this machine answers; no request generates a completion."""

import time
from pathlib import Path

import pytest
from tests.runtime.preflight.local_services import Answer, LocalServices
from tests.runtime.preflight.preflight_recipe import HEAD, brief, check

_STAGE = """\
rewards:
  long: {reads: {completion: text}, returns: {length: completion}}
stages:
  ask: {eval: judge, data: sums, reward: long, metrics: {long: {mean: returns}}}
"""
JUDGED = '{judge: {of: completion, endpoint: judge, rubric: "short"}}'


def text(services: LocalServices, endpoint: str = "provider: vllm, model: tiny", path: str = "/v1") -> str:
    declared = f'endpoints:\n  judge: {{{endpoint}, base_url: "{services.url}{path}"}}\n'
    return HEAD + declared + _STAGE


@pytest.mark.parametrize(
    ("answer", "severity", "cause"),
    [
        ((200, {"data": [{"id": "tiny"}]}), None, ""),
        ((200, {"data": [{"id": "tinny"}]}), "error", "does not list the model `tiny`"),
        ((200, {"models": []}), None, ""),
        ((200, b"<html>"), "warning", "does not answer with JSON"),
        ((401, {"error": "no"}), "error", "requires a key"),
        ((403, {"error": "no"}), "warning", "answers 403"),
        ((404, {"error": "no"}), "warning", "has no list of models"),
        ((405, {}), None, ""),
        ((501, {}), None, ""),
        ((429, {"error": "slow down"}), "warning", "is overloaded or fails: 429"),
        ((503, {"error": "loading"}), "warning", "is overloaded or fails: 503"),
    ],
)
def test_the_answer_decides(
    answer: Answer, severity: str | None, cause: str, services: LocalServices, tmp_path: Path
) -> None:
    services.answers["/v1/models"] = answer
    found = check(tmp_path, text(services))
    assert services.requests == ["GET /v1/models"]
    if severity is None:
        assert found == ()
        return
    (only,) = found
    assert (only.severity, only.check, only.steps) == (severity, "endpoint", ("ask",))
    assert cause in only.cause
    assert (only.place.line, only.place.column) == (10, 3), "the place of the endpoint"


def test_a_stopped_server_is_an_error(services: LocalServices, tmp_path: Path) -> None:
    stopped = text(services).replace(services.url, "http://127.0.0.1:9")
    (found,) = check(tmp_path, stopped)
    assert (found.severity, found.check) == ("error", "endpoint")
    assert "cannot be reached: ConnectionRefusedError" in found.cause


def test_a_slow_server_is_a_warning(
    services: LocalServices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posttrain.runtime.preflight.endpoints._SECONDS", 0.2)
    services.delay = 1.0
    (found,) = check(tmp_path, text(services))
    assert (found.severity, found.cause.endswith("did not answer within 0.2 s")) == ("warning", True)


def test_checks_run_side_by_side(services: LocalServices, tmp_path: Path) -> None:
    services.delay = 1.0
    names = [f"e{number}" for number in range(6)]
    declared = "".join(
        f'  {name}: {{provider: vllm, model: tiny, base_url: "{services.url}/{name}"}}\n' for name in names
    )
    stage = _STAGE.replace("eval: judge", f"eval: [{', '.join(names)}]")
    began = time.monotonic()
    found = check(tmp_path, f"{HEAD}endpoints:\n{declared}{stage}")
    assert time.monotonic() - began < 4.0, "one after the other they take six seconds"
    assert len(found) == len(names)


def test_the_key_is_sent_and_a_rejected_one_is_an_error(
    services: LocalServices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(token: str) -> Answer:
        return (200, {"data": [{"id": "tiny"}]}) if token == "Bearer right" else (401, {"error": "no"})

    services.answers["/v1/models"] = answer
    recipe = text(services, "provider: openai, model: tiny, api_key: {env: JUDGE_KEY}")
    monkeypatch.setenv("JUDGE_KEY", "right")
    assert check(tmp_path, recipe) == ()
    monkeypatch.setenv("JUDGE_KEY", "wrong")
    (found,) = check(tmp_path, recipe)
    assert "rejects the key in JUDGE_KEY" in found.cause
    assert "wrong" not in found.cause + found.advice
    monkeypatch.delenv("JUDGE_KEY")
    missing = ("error", "secret", "`judge`: the environment variable JUDGE_KEY is not set")
    assert brief(check(tmp_path, recipe)) == [missing], "the answer to a request without a key means nothing"
    dead = recipe.replace(services.url, "http://127.0.0.1:9")
    both = check(tmp_path, dead)
    assert sorted(one.check for one in both) == ["endpoint", "secret"]
    assert any("cannot be reached" in one.cause for one in both)


def test_a_judge_in_a_reward_is_checked(services: LocalServices, tmp_path: Path) -> None:
    recipe = text(services).replace("{length: completion}", JUDGED).replace("eval: judge", "eval: small")
    (found,) = check(tmp_path, recipe)
    assert (found.check, found.place.line) == ("endpoint", 10)


def test_a_key_that_the_server_repeats_is_not_shown(
    services: LocalServices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.answers["/v1/models"] = lambda token: (401, {"error": f"unknown {token}"})
    monkeypatch.setenv("JUDGE_KEY", "s3cret-value")
    recipe = text(services, "provider: openai, model: tiny, api_key: {env: JUDGE_KEY}")
    (found,) = check(tmp_path, recipe)
    assert "unknown Bearer ***" in found.cause
