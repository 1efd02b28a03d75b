"""Answers the requests of a browser. Every path starts with the token (`request_access.py`).

/TOKEN/                             the list of runs; `events` below it is its stream
/TOKEN/run/HOME/NAME/               a run; `events`, `log` and `stop` below it
/TOKEN/compare/?run=HOME/NAME&...   a comparison of runs
/TOKEN/assets/NAME                  scripts and style sheets
"""

import contextlib
import json
import select
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, Protocol, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from posttrain.runtime.ui.request_access import refusal

if TYPE_CHECKING:
    from posttrain.runtime.ui.live_feed import LiveFeed
    from posttrain.runtime.ui.live_pages import LivePages
    from posttrain.runtime.ui.run_index import RunPlace

_HEARTBEAT_SECONDS = 10.0
_RETRY_MS = 1500
_MAX_BODY = 10_000
_HTML = "text/html; charset=utf-8"
_TEXT = "text/plain; charset=utf-8"


class ServedPages(Protocol):
    """What a request needs of its server."""

    token: str
    # One for each open stream.
    streams: threading.BoundedSemaphore
    is_ending: bool

    @property
    def pages(self) -> "LivePages": ...


# The longest query is that of a comparison of all runs on a page of the list.
_MAX_FIELDS = 60
_FULL_RETRY_MS = 10_000


class _NotFound(Exception):
    """No page has this path."""


class UiRequestHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "posttrain"
    sys_version = ""
    timeout = 60  # of a connection without requests

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name in the base class)
        """Print nothing: the path has the token."""

    @property
    def _ui(self) -> ServedPages:
        return cast("ServedPages", self.server)

    def _answer(self, method: str) -> None:
        self._is_answered = False
        try:
            refused = refusal(method, self.path, cast("Any", self.headers), self._ui.token)
            if refused is not None:
                self.close_connection = True
                self._send(HTTPStatus.FORBIDDEN, f"403: {refused}\n", _TEXT)
                return
            address = urlsplit(self.path)
            parts = [unquote(part, errors="surrogateescape") for part in address.path.split("/")[2:]]
            fields = _query_fields(address.query)
            if method == "POST":
                self._post(parts)
            elif parts == ["compare", ""]:
                self._compare(fields)
            else:
                self._get(parts, dict(fields))
        except (BrokenPipeError, ConnectionError, TimeoutError):
            self.close_connection = True  # the client is gone
        except _NotFound:
            self._fail(HTTPStatus.NOT_FOUND, "404: there is no such page\n")
        except Exception as error:  # one request must not end the server
            self._fail(HTTPStatus.INTERNAL_SERVER_ERROR, f"500: {type(error).__name__}: {error}\n")

    def _fail(self, status: HTTPStatus, text: str) -> None:
        self.close_connection = True
        if not self._is_answered:
            with contextlib.suppress(OSError):
                self._send(status, text, _TEXT)

    def _get(self, parts: list[str], fields: dict[str, str]) -> None:
        from posttrain.runtime.ui.live_document import read_asset
        from posttrain.runtime.ui.runs_page import parse_query

        pages = self._ui.pages
        match parts:
            case [""]:
                self._send(HTTPStatus.OK, pages.list_document(parse_query(fields)), _HTML)
            case ["events"]:
                self._stream(pages.list_feed(parse_query(fields)), fields)
            case ["assets", name] if (asset := read_asset(name)) is not None:
                self._send(HTTPStatus.OK, *asset)
            case ["run", home, name, ""]:
                self._send(HTTPStatus.OK, pages.run_document(self._place(home, name)), _HTML)
            case ["run", home, name, "events"]:
                self._stream(pages.run_feed(self._place(home, name)), fields)
            case ["run", home, name, "log"]:
                start = fields.get("start", "")
                offset = int(start) if start.isdecimal() and len(start) < 16 else -1
                found = pages.log_excerpt(self._place(home, name), fields.get("step", ""), offset)
                self._send(HTTPStatus.OK, json.dumps(found), "application/json")
            case _:
                raise _NotFound

    def _compare(self, fields: list[tuple[str, str]]) -> None:
        """Compare runs with the oldest of them."""
        from posttrain.runtime.ui.runs_page import RUN_FIELD

        runs = dict.fromkeys(value for name, value in fields if name == RUN_FIELD)
        paths = [run.partition("/") for run in runs]
        places = [self._place(home, unquote(name, errors="surrogateescape")) for home, _, name in paths]
        places.sort(key=lambda place: place.name)  # names start with the time
        self._send(HTTPStatus.OK, self._ui.pages.comparison_document(places), _HTML)

    def _post(self, parts: list[str]) -> None:
        from posttrain.runtime.ui.run_owner import StopRefused

        length = self.headers.get("Content-Length", "0")
        if not length.isdecimal() or int(length) > _MAX_BODY:
            self._fail(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "413: the request is too large\n")
            return
        self.rfile.read(int(length))
        match parts:
            case ["run", home, name, "stop"]:
                try:
                    self._ui.pages.stop(self._place(home, name))
                except StopRefused as refused:
                    self._send(HTTPStatus.CONFLICT, f"The run was not stopped: {refused}.\n", _TEXT)
                    return
                self._send(HTTPStatus.SEE_OTHER, "", _TEXT, Location="./")
            case _:
                raise _NotFound

    def _place(self, home: str, name: str) -> "RunPlace":
        number = int(home) if home.isdecimal() and len(home) < 6 else -1
        place = self._ui.pages.index.find(number, name)
        if place is None:
            raise _NotFound
        return place

    def _send(self, status: HTTPStatus, text: str, kind: str, **more: str) -> None:
        data = text.encode("utf-8", "replace")
        self._is_answered = True
        self.send_response(status)
        self._send_common_headers(kind)
        for name, value in more.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def _send_common_headers(self, kind: str) -> None:
        from posttrain.runtime.ui.live_document import POLICY

        self.send_header("Content-Type", kind)
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "same-origin")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cache-Control", "no-store")

    def _stream(self, feed: "LiveFeed", fields: dict[str, str]) -> None:
        """Send the changes of a page until the client leaves. A client that reconnects names what it has."""
        if not self._ui.streams.acquire(blocking=False):
            self._begin_stream(_FULL_RETRY_MS)
            # Not an error status: the browser would give up, and the page could not say why.
            self._write("event: full\ndata: \n\n")
            return
        try:
            self._begin_stream(_RETRY_MS)
            self._send_changes(feed, self.headers.get("Last-Event-ID") or fields.get("after", ""))
        finally:
            self._ui.streams.release()

    def _begin_stream(self, retry_ms: int) -> None:
        self.close_connection = True
        self._is_answered = True
        self.send_response(HTTPStatus.OK)
        self._send_common_headers("text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self._write(f"retry: {retry_ms}\n\n")

    def _send_changes(self, feed: "LiveFeed", after: str) -> None:
        sent_at = time.monotonic()
        while not self._ui.is_ending:
            feed.refresh()
            changes = feed.changes(after)
            if changes is not None:
                data, after = changes
                self._write(f"id: {after}\nevent: blocks\ndata: {data}\n\n")
                sent_at = time.monotonic()
            elif time.monotonic() - sent_at > _HEARTBEAT_SECONDS:
                self._write(": still here\n\n")
                sent_at = time.monotonic()
            # A client sends nothing after its request: what is readable is the end of the connection.
            if select.select([self.connection], [], [], max(0.2, min(feed.seconds_left(), 5.0)))[0]:
                return

    def _write(self, text: str) -> None:
        self.wfile.write(text.encode())
        self.wfile.flush()


def _query_fields(query: str) -> list[tuple[str, str]]:
    """The fields of a query; none if it is not one of a page."""
    try:
        return parse_qsl(query, max_num_fields=_MAX_FIELDS, errors="surrogateescape")
    except ValueError:
        return []
