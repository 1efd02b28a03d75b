"""The client of `host_server.py`: each request and each response is one line of JSON."""

import json
import os
import selectors
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from posttrain.runtime.process_environment import subprocess_environment
from posttrain.runtime.process_tree import kill_tree

START_SECONDS = 120.0  # the file can have slow imports
_SERVER = Path(__file__).with_name("host_server.py")


class HostClient:
    """Starts a server process and sends requests to it.

    A response is a mapping, with `error` for a failed call, or None after a timeout.
    """

    def __init__(
        self,
        python: str,
        kind: Literal["function", "rows", "episodes"],
        file: Path,
        name: str,
        params: Mapping[str, Any],
        folders: Sequence[str],
        environment: Mapping[str, str],
    ) -> None:
        """Start the process. Raises OSError when the interpreter cannot start."""
        command = [python, str(_SERVER), kind, str(file), name, json.dumps(params), *folders]
        pipe, env = subprocess.PIPE, subprocess_environment(os.environ) | dict(environment)
        self._popen = subprocess.Popen(command, stdin=pipe, stdout=pipe, bufsize=0, env=env)
        self._buffer = bytearray()

    @property
    def is_alive(self) -> bool:
        return self._popen.poll() is None

    def wait_until_ready(self) -> dict[str, Any] | None:
        """The first response, sent after the file is loaded."""
        return self._read_response(START_SECONDS)

    def request(self, message: Mapping[str, Any], seconds: float) -> dict[str, Any] | None:
        return self._read_response(seconds) if self._send(message) else self._exit_error()

    def request_many(
        self, message: Mapping[str, Any], count: int, seconds: float
    ) -> Iterator[dict[str, Any] | None]:
        """The responses to the calls of one message, up to the first that fails or takes too long."""
        if not self._send(message):
            yield self._exit_error()
            return
        for _ in range(count):
            response = self._read_response(seconds)
            yield response
            if response is None or "error" in response:
                return

    def _send(self, message: Mapping[str, Any]) -> bool:
        assert self._popen.stdin is not None, "its input is a pipe"
        text = memoryview(json.dumps(message).encode() + b"\n")
        try:
            while text:
                text = text[self._popen.stdin.write(text) or 0 :]
        except OSError:
            return False
        return True

    def stop(self) -> None:
        kill_tree(self._popen.pid)  # also what the user code has started
        self._popen.wait()
        for pipe in (self._popen.stdin, self._popen.stdout):
            assert pipe is not None, "both are pipes"
            pipe.close()

    def _read_response(self, seconds: float) -> dict[str, Any] | None:
        assert self._popen.stdout is not None, "its output is a pipe"
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._popen.stdout, selectors.EVENT_READ)
            searched = 0
            while (end := self._buffer.find(b"\n", searched)) < 0:
                searched = len(self._buffer)
                remaining = deadline - time.monotonic()
                if remaining <= 0 or not selector.select(remaining):
                    return None
                chunk = os.read(self._popen.stdout.fileno(), 1 << 16)
                if not chunk:
                    return self._exit_error()
                self._buffer += chunk
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return json.loads(line)

    def _exit_error(self) -> dict[str, Any]:
        return {"error": f"the process exited with status {self._popen.wait()}"}
