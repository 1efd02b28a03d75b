"""A client for a language server: JSON-RPC over its standard input and output."""

import itertools
import json
import queue
import subprocess
import threading
from pathlib import Path
from typing import Any

_TIMEOUT = 60
_SETTINGS = {"validate": True, "hover": True, "completion": True, "schemaStore": {"enable": False}}
_CAPABILITIES = {
    "workspace": {"configuration": True},
    "textDocument": {
        "completion": {"completionItem": {"snippetSupport": True, "documentationFormat": ["markdown"]}},
        "hover": {"contentFormat": ["markdown"]},
        "publishDiagnostics": {},
    },
}
CURSOR = "¦"


class LanguageServer:
    def __init__(self, program: Path, folder: Path) -> None:
        self.folder = folder
        self.numbers = itertools.count(1)
        self.answers: queue.Queue[Any] = queue.Queue()
        self.published: queue.Queue[Any] = queue.Queue()
        self.process = subprocess.Popen(
            ["node", program, "--stdio"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def __enter__(self) -> "LanguageServer":
        threading.Thread(target=self._listen, daemon=True).start()
        self._request(
            "initialize", {"processId": None, "rootUri": self.folder.as_uri(), "capabilities": _CAPABILITIES}
        )
        self._send({"method": "initialized", "params": {}})
        return self

    def __exit__(self, *_: object) -> None:
        self._request("shutdown", None)
        self._send({"method": "exit"})
        self.process.wait(timeout=_TIMEOUT)

    def open(self, text: str) -> "OpenDocument":
        """Open a recipe with a schema line, and wait for its diagnostics."""
        name = f"recipe-{next(self.numbers)}.yaml"
        uri = (self.folder / name).as_uri()
        whole = f"# yaml-language-server: $schema=./schema.json\n{text}"
        item = {"uri": uri, "languageId": "yaml", "version": 1, "text": whole.replace(CURSOR, "")}
        self._send({"method": "textDocument/didOpen", "params": {"textDocument": item}})
        while True:
            answer = self.published.get(timeout=_TIMEOUT)
            if answer["uri"] == uri:
                return OpenDocument(self, uri, whole, answer["diagnostics"])

    def request_at(self, method: str, opened: "OpenDocument", index: int) -> Any:
        before = opened.text[:index]
        place = {"line": before.count("\n"), "character": index - before.rfind("\n") - 1}
        return self._request(method, {"textDocument": {"uri": opened.uri}, "position": place})

    def _request(self, method: str, params: Any) -> Any:
        number = next(self.numbers)
        self._send({"id": number, "method": method, "params": params})
        while True:
            answer = self.answers.get(timeout=_TIMEOUT)
            if answer["id"] == number:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        while header := self.process.stdout.readline():
            length = int(header.split(b":")[1]) if header.lower().startswith(b"content-length") else 0
            while header.strip():
                header = self.process.stdout.readline()
            self._handle_message(json.loads(self.process.stdout.read(length)))

    def _handle_message(self, message: dict[str, Any]) -> None:
        if "method" not in message:
            self.answers.put(message)
        elif message["method"] == "textDocument/publishDiagnostics":
            self.published.put(message["params"])
        elif "id" in message:  # a request of the server: its settings, or a registration
            items = message["params"].get("items", []) if isinstance(message.get("params"), dict) else []
            result = [_SETTINGS if item.get("section") == "yaml" else {} for item in items] or None
            self._send({"id": message["id"], "result": result})


class OpenDocument:
    """An open recipe. CURSOR in its text marks the position of the cursor."""

    def __init__(self, server: LanguageServer, uri: str, text: str, diagnostics: list[Any]) -> None:
        self.server = server
        self.uri = uri
        self.text = text
        self.messages = [found["message"] for found in diagnostics]
        self.positions = [found["range"]["start"] for found in diagnostics]

    def completions(self) -> dict[str, Any]:
        """The completion items at the cursor, by label."""
        answer = self.server.request_at("textDocument/completion", self, self.text.index(CURSOR))
        items = answer["items"] if isinstance(answer, dict) else answer
        return {item["label"]: item for item in items}

    def hover(self, word: str) -> str:
        answer = self.server.request_at("textDocument/hover", self, self.text.index(word) + 1)
        return str(answer["contents"]["value"]) if answer else ""
