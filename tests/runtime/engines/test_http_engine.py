"""The engine for endpoints, with a server that is busy, broken, slow, or down."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.engines.misbehaving_server import (
    Exchange,
    FakeServer,
    chat_response,
    echo,
    prompt_of,
    run_server,
    send_response,
)
from tests.runtime.engines.sampling_values import greedy_sampling

from posttrain.runtime.chat_prompts import Prompt
from posttrain.runtime.engines.completion_log import Completion, CompletionLog
from posttrain.runtime.engines.engine_protocol import GenerationRequest
from posttrain.runtime.engines.http_generator import HttpGenerator
from posttrain.runtime.errors import Interrupted, StepError
from posttrain.runtime.step_context import StopRequest
from posttrain.spec.step_params.generation_params import SamplingOptions

SAMPLING = greedy_sampling(max_tokens=9, batch_size=1)
WORDS = [f"word {number}" for number in range(12)]


def endpoint(wild: FakeServer, **more: Any) -> dict[str, Any]:
    given = {"provider": "openai", "model": "m", "base_url": wild.url, "api_key": None, "concurrency": 4}
    return {**given, "timeout_seconds": 20.0, "max_retries": 3, **more}


def asked(
    where: dict[str, Any],
    texts: list[str],
    path: Path | None = None,
    stop: StopRequest | None = None,
    **sampling: Any,
) -> list[list[Completion]]:
    prompts: list[Prompt] = [[{"role": "user", "content": text}] for text in texts]
    drawn = {**SAMPLING, **sampling}
    kept = CompletionLog(path, prompts, drawn["n"])
    order = GenerationRequest(
        prompts=prompts,
        sampling=SamplingOptions(**drawn),
        seed=7,
        log=kept,
        progress=lambda _done, _total: None,
        stop=stop or StopRequest(),
    )
    try:
        return HttpGenerator(where).generate(order)
    finally:
        kept.close()


def texts(found: list[list[Completion]]) -> list[str | None]:
    return [one.text for completions in found for one in completions]


def test_each_reply_stands_at_its_prompt():
    with run_server(FakeServer(echo)) as wild:
        found = asked(endpoint(wild), WORDS)
    assert texts(found) == [word.upper() for word in WORDS]
    assert found[0][0] == Completion("WORD 0", 6, "stop")


def test_samples_are_asked_for_one_by_one_with_seeds_of_their_own():
    with run_server(FakeServer(echo)) as wild:
        found = asked(endpoint(wild), ["a", "a"], n=3, temperature=1.0)
    assert texts(found) == ["A"] * 6
    assert len({body["seed"] for body in wild.requests}) == 6


def cut(exchange: Exchange) -> None:
    exchange.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{")
    exchange.close_connection = True


def silent(exchange: Exchange) -> None:
    exchange.close_connection = True


def drip(exchange: Exchange) -> None:
    exchange.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
    for _ in range(400):
        exchange.wfile.write(b" ")
        time.sleep(0.05)


TROUBLES: dict[str, Callable[[Exchange], None]] = {
    "busy": lambda exchange: send_response(exchange, 429, b"slow down", retry_after="0.05"),
    "dated": lambda exchange: send_response(
        exchange, 503, b"soon", retry_after="Wed, 21 Oct 2015 07:28:00 GMT"
    ),
    "broken": lambda exchange: send_response(exchange, 200, b'{"choices": ['),
    "shapeless": lambda exchange: send_response(exchange, 200, b'{"choices": []}'),
    "nested": lambda exchange: send_response(exchange, 200, b"[" * 200_000),
    "large": lambda exchange: send_response(exchange, 200, b" " * (9 << 20)),
    "hang": lambda exchange: time.sleep(20),
    "cut": cut,
    "silent": silent,
    "drip": drip,
}


@pytest.mark.parametrize("kind", TROUBLES)
def test_what_may_pass_is_asked_again(kind: str):
    def behave(wild: FakeServer, exchange: Exchange, body: dict[str, Any], number: int) -> None:
        if number == 0:
            TROUBLES[kind](exchange)
        else:
            echo(wild, exchange, body, number)

    with run_server(FakeServer(behave)) as wild:
        found = asked(endpoint(wild, concurrency=1, timeout_seconds=4.0), ["a", "b"])
    assert texts(found) == ["A", "B"]
    assert len(wild.requests) == 3


def test_what_never_comes_is_told_apart_and_not_kept(tmp_path: Path):
    def behave(wild: FakeServer, exchange: Exchange, body: dict[str, Any], number: int) -> None:
        match prompt_of(body):
            case "late":
                time.sleep(20)
            case "ill":
                send_response(exchange, 500, b"no", retry_after="0")
            case "odd":
                send_response(exchange, 400, b"this prompt is too long")
            case _:
                echo(wild, exchange, body, number)

    path = tmp_path / "replies.jsonl"
    with run_server(FakeServer(behave)) as wild:
        where = endpoint(wild, max_retries=1, timeout_seconds=2.0)
        found = asked(where, ["good", "late", "ill", "odd"], path)
    ends = [completions[0].finish for completions in found]
    assert ends == ["stop", "timeout", "error", "refused"]
    assert "too long" in (found[3][0].error or "")
    assert len(path.read_text().splitlines()) == 1


def test_requests_under_way_grow_from_few_and_never_beyond_what_is_allowed():
    at_first: list[int] = []
    four, nine = threading.Event(), threading.Event()

    def behave(wild: FakeServer, exchange: Exchange, body: dict[str, Any], number: int) -> None:
        reached = {4: four, 9: nine}.get(wild.in_flight)
        if reached is not None:
            reached.set()
        if number < 4:  # held until no more are coming
            four.wait(15)
            time.sleep(0.3)
            at_first.append(wild.max_in_flight)
        elif number >= 20:  # by now all that are allowed may come
            nine.wait(15)
        echo(wild, exchange, body, number)

    with run_server(FakeServer(behave)) as wild:
        asked(endpoint(wild, concurrency=9), [f"w{n}" for n in range(60)])
    assert at_first[0] == 4
    assert wild.max_in_flight == 9


def test_a_busy_server_is_asked_less_at_a_time():
    from posttrain.runtime.engines.concurrency_limiter import limiter_for

    def behave(wild: FakeServer, exchange: Exchange, body: dict[str, Any], number: int) -> None:
        if wild.in_flight > 3:
            send_response(exchange, 429, b"busy", retry_after="0.02")
        else:
            time.sleep(0.01)
            echo(wild, exchange, body, number)

    with run_server(FakeServer(behave)) as wild:
        found = asked(endpoint(wild, concurrency=32, max_retries=19), [f"w{n}" for n in range(80)])
        limit = limiter_for(wild.url, "m", 32).limit
    assert None not in texts(found)
    assert limit < 16
    assert wild.max_in_flight < 32


def test_a_key_that_opens_nothing_ends_the_step_and_is_not_shown(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("THE_KEY", "s3cret")
    with run_server(FakeServer(lambda w, e, b, n: send_response(e, 401, b"wrong key: s3cret"))) as wild:
        with pytest.raises(StepError, match=r"openai returned status 401: wrong key: \*\*\*") as raised:
            asked(endpoint(wild, api_key="THE_KEY"), WORDS)
        assert len(wild.requests) < len(WORDS)
    assert not raised.value.retriable


@pytest.mark.parametrize("value", ["", "two\nlines", "schl\u00fcssel"])
def test_a_key_that_is_none_is_not_shown(monkeypatch: pytest.MonkeyPatch, value: str):
    monkeypatch.setenv("THE_KEY", value)
    with pytest.raises(StepError, match="THE_KEY") as raised:
        HttpGenerator(endpoint(FakeServer(echo, url="http://127.0.0.1:9/v1"), api_key="THE_KEY"))
    assert not value or value not in str(raised.value)


def test_an_endpoint_that_refuses_everything_ends_the_step():
    with run_server(FakeServer(lambda w, e, b, n: send_response(e, 400, b"no such model"))) as wild:
        with pytest.raises(StepError, match="no such model"):
            asked(endpoint(wild), [f"w{n}" for n in range(500)])
        assert len(wild.requests) < 40


def test_an_endpoint_that_is_gone_ends_the_step_for_now(tmp_path: Path):
    gone = threading.Event()

    def behave(wild: FakeServer, exchange: Exchange, body: dict[str, Any], number: int) -> None:
        if number >= 30:
            gone.set()
        if gone.is_set():
            send_response(exchange, 503, b"down", retry_after="0")
        else:
            echo(wild, exchange, body, number)

    path, many = tmp_path / "replies.jsonl", [f"w{n}" for n in range(200)]
    with run_server(FakeServer(behave)) as wild:
        with pytest.raises(StepError, match="20 requests in a row") as raised:
            asked(endpoint(wild, max_retries=0), many, path)
        assert raised.value.retriable
        kept = len(path.read_text().splitlines())
        assert kept >= 26
        wild.behave, before = echo, len(wild.requests)
        found = asked(endpoint(wild), many, path)
        assert len(wild.requests) - before == 200 - kept
    assert texts(found) == [text.upper() for text in many]


def test_asked_to_stop_it_keeps_what_is_under_way_and_begins_nothing(tmp_path: Path):
    stop, path = StopRequest(), tmp_path / "replies.jsonl"

    def behave(wild: FakeServer, exchange: Exchange, body: dict[str, Any], number: int) -> None:
        if number == 5:
            stop.requested = True
            time.sleep(0.5)
        echo(wild, exchange, body, number)

    with run_server(FakeServer(behave)) as wild:
        with pytest.raises(Interrupted):
            asked(endpoint(wild), WORDS * 4, path, stop)
        seen = len(wild.requests)
        assert len(path.read_text().splitlines()) == seen < 48
        asked(endpoint(wild), WORDS * 4, path)
        assert len(wild.requests) == 48


def test_a_line_that_was_cut_short_is_asked_for_again(tmp_path: Path):
    path = tmp_path / "replies.jsonl"
    with run_server(FakeServer(echo)) as wild:
        asked(endpoint(wild), WORDS, path)
        whole = path.read_bytes()
        path.write_bytes(whole[:-9])
        assert texts(asked(endpoint(wild), WORDS, path)) == [word.upper() for word in WORDS]
        assert len(wild.requests) == 13
        # A reply belongs to its own prompt, or to one of its duplicates.
        found = asked(endpoint(wild), ["another", WORDS[3], WORDS[3]], path)
    assert texts(found) == ["ANOTHER", "WORD 3", "WORD 3"]
    assert wild.texts()[13:] in (["another", WORDS[3]], [WORDS[3], "another"])


def test_a_plain_prompt_goes_to_the_interface_for_text():
    def behave(wild: FakeServer, exchange: Exchange, body: dict[str, Any], number: int) -> None:
        assert exchange.path == "/v1/completions"
        send_response(exchange, 200, b'{"choices": [{"text": " 4", "finish_reason": "length"}]}')

    with run_server(FakeServer(behave)) as wild:
        kept = CompletionLog(None, ["2+2="], 1)
        order = GenerationRequest(
            prompts=["2+2="],
            sampling=SamplingOptions(**SAMPLING),
            seed=1,
            log=kept,
            progress=lambda _d, _t: None,
            stop=StopRequest(),
        )
        assert HttpGenerator(endpoint(wild)).generate(order) == [[Completion(" 4", None, "length")]]
        for provider in ("anthropic", "gemini"):
            with pytest.raises(StepError, match="accepts only conversations"):
                HttpGenerator(endpoint(wild, provider=provider)).generate(
                    GenerationRequest(
                        prompts=["2+2="],
                        sampling=SamplingOptions(**SAMPLING),
                        seed=1,
                        log=CompletionLog(None, ["2+2="], 1),
                        progress=lambda _d, _t: None,
                        stop=StopRequest(),
                    )
                )
    assert wild.requests[0]["prompt"] == "2+2="


def test_further_fields_are_sent_as_they_are_and_null_takes_one_away():
    with run_server(
        FakeServer(lambda w, e, b, n: send_response(e, 200, chat_response("x", "max_tokens")))
    ) as wild:
        found = asked(endpoint(wild, extra_body={"reasoning": {"effort": "low"}, "temperature": None}), ["a"])
    assert wild.requests[0]["reasoning"] == {"effort": "low"}
    assert "temperature" not in wild.requests[0]
    assert found[0][0].finish == "length"
