"""The server: who may ask, what it answers, streams that end and resume."""

import json
import socket
import time

import pytest
from tests.recipe_command import wait_until

from posttrain.runtime.ui import log_excerpt, ui_server


@pytest.fixture
def finished(run_builder, make):
    run_builder.begin(make.step("sft"), make.step("check", "script"))
    run_builder.done("sft", [("metrics", {"step": s, "values": {"loss": 1 / s}}) for s in (1, 2, 3)])
    run_builder.done("check")
    run_builder.end()
    return run_builder


@pytest.fixture
def path(finished) -> str:
    return f"run/0/{finished.run.name}/"


def test_the_pages_name_the_run(serve, finished, path):
    client = serve(finished.home.root)
    assert finished.run.name in client.get()
    page = client.get(path)
    for name in ("plan", "timeline", "curves", "steps", "logs"):
        assert f'id="{name}"' in page
    assert "All 2 steps finished" in page


@pytest.mark.parametrize("raw", ["/", "/wrong/", "//", "/wrong/assets/page.css", "/%C3%A9/", "x"])
def test_a_request_without_the_token_is_refused(serve, tmp_path, raw):
    client = serve(tmp_path)
    answer, text = client.send(raw, raw=True)
    assert answer.status == 403
    assert "token" in text


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.:80", "", "127.0.0.1:80@x"]
)
def test_the_name_of_another_host_is_refused(serve, tmp_path, host):
    """DNS rebinding: a site that resolves its own name to this machine."""
    client = serve(tmp_path)
    assert client.send(Host=host)[0].status == 403


@pytest.mark.parametrize("host", ["localhost", "localhost:9000", "127.0.0.1:1", "[::1]:80"])
def test_a_tunnel_may_have_another_port(serve, tmp_path, host):
    assert serve(tmp_path).send(Host=host)[0].status == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://{host}", "http://localhost:1"])
def test_a_post_of_another_origin_is_refused(serve, finished, path, origin):
    client = serve(finished.home.root)
    assert client.post(f"{path}stop", Origin=origin.format(host=client.host))[0] == 403
    assert client.send(f"{path}stop", "POST")[0].status == 403


def test_answers_have_a_strict_policy(serve, finished, path):
    client = serve(finished.home.root)
    for one in ("", path, "assets/live.js"):
        answer, _ = client.send(one)
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "one",
    [
        *("nothing", "run/0/", "run/1/{run}/", "run/x/{run}/", "run/0/none/", "run/0/../", "run/0/%2e%2e/"),
        *(
            "run/0/..%2f..%2fx/",
            "run/0/%00/",
            "assets/page.py",
            "assets/../page.py",
            "assets/",
            "run/0/{run}",
        ),
    ],
)
def test_what_is_not_there_is_not_found(serve, finished, one):
    client = serve(finished.home.root)
    answer, _ = client.send(one.format(run=finished.run.name))
    assert answer.status == 404


def test_a_method_that_no_page_has(serve, tmp_path):
    assert serve(tmp_path).send("", "DELETE")[0].status == 501
    client = serve(tmp_path)
    assert client.post("")[0] == 404


def test_a_stream_sends_what_changed_and_resumes(serve, run_builder, make):
    run_builder.begin(make.step("sft"), make.step("check", "script"))
    client = serve(run_builder.home.root)
    stream = client.stream(f"run/0/{run_builder.run.name}/events")
    first, update = stream.next()
    assert {"plan", "summary"} <= update["blocks"].keys()
    run_builder.settle("sft", "failed", reason="no luck", attempt=1)
    second, update = stream.next()
    assert "no luck" in update["blocks"]["failures"]
    assert "curves" not in update["blocks"]
    stream.close()
    run_builder.settle("check", "blocked", reason="sft was failed")
    # The client missed a change while it was away.
    again = client.stream(f"run/0/{run_builder.run.name}/events", Last_Event_ID=second)
    third, update = again.next()
    assert "blocked" in update["blocks"]["plan"]
    assert len({first, second, third}) == 3
    again.close()
    other = client.stream(f"run/0/{run_builder.run.name}/events?after={first}")
    assert "no luck" in other.next()[1]["blocks"]["failures"]
    other.close()


def test_a_client_that_leaves_is_dropped(serve, finished, path, monkeypatch):
    monkeypatch.setattr(ui_server, "_MAX_STREAMS", 2)
    client = serve(finished.home.root)
    streams = [client.stream(f"{path}events") for _ in range(2)]
    for stream in streams:
        stream.next()
    # An error status would end the attempts of the browser.
    answer, text = client.send(f"{path}events")
    assert (answer.status, text.split("\n")) == (200, ["retry: 10000", "", "event: full", "data: ", "", ""])
    for stream in streams:
        stream.close()

    def has_room() -> bool:
        found = client.stream(f"{path}events")
        found.answer.readline()
        found.answer.readline()
        line = found.answer.readline()
        found.close()
        return line != b"event: full\n"

    wait_until(has_room, "the end of the streams", seconds=30)


def test_a_request_that_is_no_http_does_not_end_the_server(serve, tmp_path):
    client = serve(tmp_path)
    for data in (b"\x00\xff\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b""):
        with socket.create_connection(("127.0.0.1", client.server.server_port)) as connection:
            connection.sendall(data)
    client.get()


def test_the_log_comes_in_pieces(serve, run_builder, make):
    run_builder.begin(make.step("sft"), make.step("later"))
    work = run_builder.work(
        "sft", log="first\n\x1b[31mred\x1b[0m\n 50%|#####     | 5/10 [00:01<00:01,  4.9it/s]\nhalf"
    )
    client = serve(run_builder.home.root)
    where = f"run/0/{run_builder.run.name}/log?step="
    found = json.loads(client.get(f"{where}sft"))
    assert found["text"] == "first\nred\nhalf"  # no client runs it: it has ended
    with (work / "record" / "log").open("a") as file:
        file.write(" and half\n")
    more = json.loads(client.get(f"{where}sft&start={found['next']}"))
    assert more["text"] == " and half\n"
    assert more["next"] == more["size"]
    assert "has not run yet" in json.loads(client.get(f"{where}later"))["problem"]
    assert "no step" in json.loads(client.get(f"{where}none"))["problem"]


def test_a_slow_page_does_not_block_another(serve, finished, path, monkeypatch):
    client = serve(finished.home.root)
    place = client.server.pages.index.find(0, finished.run.name)
    live = client.server.pages._run_page(place).live
    monkeypatch.setattr(live, "_blocks", lambda: time.sleep(3) or {})
    stream = client.stream(f"{path}events")
    began = time.monotonic()
    assert finished.run.name in client.get()
    assert time.monotonic() - began < 2.5
    stream.close()


def test_a_query_that_is_not_one_of_a_page_is_ignored(serve, finished):
    query = "&".join(f"field{number}=1" for number in range(100))
    assert "1 run" in serve(finished.home.root).get(f"?{query}")


def test_a_secret_between_two_pieces_of_a_log_is_masked(run_builder, make, monkeypatch):
    monkeypatch.setattr(log_excerpt, "_PIECE_BYTES", 100)
    run_builder.begin(make.step("sft"))
    run_builder.work("sft", log=f"{'a' * 95}\nbc hunter2\n{'d' * 300}\n")
    text, start = "", 0
    for _ in range(20):
        found = log_excerpt.read_log_excerpt(run_builder.home, run_builder.run, "sft", start, ("hunter2",))
        text, start = text + found["text"], found["next"]
    assert text == f"{'a' * 95}\nbc [secret]\n{'d' * 300}\n"
