"""The server of `recipe ui`. It imports what a page needs with the first request for one."""

import socketserver
import threading
from collections.abc import Sequence
from functools import cached_property
from http.server import ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from posttrain.runtime.store.home import Home
from posttrain.runtime.ui.request_access import new_token
from posttrain.runtime.ui.ui_requests import UiRequestHandler

if TYPE_CHECKING:
    from posttrain.runtime.comparison.recipe_differences import CompareRecipes
    from posttrain.runtime.ui.live_pages import LivePages

_ADDRESS = "127.0.0.1"
# Pages that receive updates at the same time; each takes a thread.
_MAX_STREAMS = 32


class UiServer(ThreadingHTTPServer):
    """Serves the runs of homes on 127.0.0.1 to whoever knows the token."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, homes: Sequence[Home], compare_recipes: "CompareRecipes", port: int = 0) -> None:
        self.token = new_token()
        self.streams = threading.BoundedSemaphore(_MAX_STREAMS)
        self.is_ending = False
        self._homes = homes
        self._compare_recipes = compare_recipes
        super().__init__((_ADDRESS, port), UiRequestHandler)

    def server_bind(self) -> None:
        """Without the name of the host, whose lookup can take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = _ADDRESS, self.server_address[1]

    @property
    def url(self) -> str:
        return f"http://{_ADDRESS}:{self.server_port}/{self.token}/"

    @cached_property
    def pages(self) -> "LivePages":
        from posttrain.runtime.ui.live_pages import LivePages

        return LivePages(self._homes, self._compare_recipes)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a connection that breaks: a browser ends connections at any time."""

    def shutdown(self) -> None:
        self.is_ending = True
        super().shutdown()
