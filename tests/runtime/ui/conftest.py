"""Starts servers, sends them requests, and reads their streams."""

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.report.conftest import browser, make, run_builder

from posttrain.cli.run_recipes import compare_run_recipes
from posttrain.runtime.store.home import Home
from posttrain.runtime.ui.ui_server import UiServer

__all__ = ["browser", "make", "run_builder"]


@pytest.fixture
def serve() -> Iterator[Callable[..., "Client"]]:
    """Starts a server of homes in a thread."""
    started: list[tuple[UiServer, threading.Thread]] = []

    def start(*homes: Path) -> Client:
        server = UiServer([Home(home) for home in homes], compare_run_recipes)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        started.append((server, thread))
        return Client(server)

    yield start
    for server, thread in started:
        server.shutdown()
        server.server_close()
        thread.join(30)


class Client:
    """A browser without a page: sends requests with the token."""

    def __init__(self, server: UiServer) -> None:
        self.server = server
        self.host = f"127.0.0.1:{server.server_port}"

    def send(
        self, path: str = "", method: str = "GET", raw: bool = False, **headers: str
    ) -> tuple[http.client.HTTPResponse, str]:
        """The answer to a request. `raw` is a path without the token; `_` in names of headers is `-`."""
        connection = http.client.HTTPConnection(self.host, timeout=60)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path if raw else f"/{self.server.token}/{path}", headers=named)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer, text

    def get(self, path: str = "") -> str:
        answer, text = self.send(path)
        assert answer.status == 200, text
        return text

    def post(self, path: str, **headers: str) -> tuple[int, str]:
        answer, text = self.send(path, "POST", **{"Origin": f"http://{self.host}", **headers})
        return answer.status, text

    def stream(self, path: str, **headers: str) -> "Stream":
        return Stream(self, path, headers)


class Stream:
    """A stream of server-sent events."""

    def __init__(self, client: Client, path: str, headers: dict[str, str]) -> None:
        self._connection = http.client.HTTPConnection(client.host, timeout=60)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request("GET", f"/{client.server.token}/{path}", headers=named)
        self.answer = self._connection.getresponse()

    def next(self) -> tuple[str, dict[str, Any]]:
        """The id and the data of the next event."""
        fields: dict[str, str] = {}
        while True:
            line = self.answer.readline().decode().rstrip("\n")
            if not line and "data" in fields:
                return fields["id"], json.loads(fields["data"])
            name, _, value = line.partition(": ")
            fields[name] = value

    def close(self) -> None:
        self.answer.close()
        self._connection.close()
