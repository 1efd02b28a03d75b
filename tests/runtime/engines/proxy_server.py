"""A local HTTP proxy: forwards requests and tunnels TLS to one server, whatever host a request names."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

_REFUSAL = b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


@dataclass
class FakeProxy:
    target: int  # the port of the server
    authorization: str | None = None  # the header that it requires
    url: str = ""
    connections: int = 0
    # The first line of each request that reached the proxy itself: tunnelled requests are opaque.
    requests: list[str] = field(default_factory=list[str])


@contextmanager
def run_proxy(proxy: FakeProxy) -> Iterator[FakeProxy]:
    listener = socket.create_server(("127.0.0.1", 0))
    proxy.url = f"http://127.0.0.1:{listener.getsockname()[1]}"

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            proxy.connections += 1
            threading.Thread(target=_serve, args=(proxy, client), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield proxy
    finally:
        listener.close()


def _serve(proxy: FakeProxy, client: socket.socket) -> None:
    with client:
        reader = client.makefile("rb")
        while head := _read_head(reader):
            line, headers = head
            proxy.requests.append(line)
            if proxy.authorization and headers.get("proxy-authorization") != proxy.authorization:
                client.sendall(_REFUSAL)
                return
            if line.startswith("CONNECT "):
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                _tunnel(client, proxy.target)
                return
            client.sendall(_forward(proxy.target, line, headers, reader.read(int(headers["content-length"]))))


def _read_head(reader: "socket.SocketIO") -> tuple[str, dict[str, str]] | None:
    line = reader.readline().decode().strip()
    if not line:
        return None
    headers: dict[str, str] = {}
    while header := reader.readline().decode().strip():
        name, _, value = header.partition(":")
        headers[name.lower()] = value.strip()
    return line, headers


def _forward(port: int, line: str, headers: dict[str, str], body: bytes) -> bytes:
    verb, url, version = line.split()
    sent = {name: value for name, value in headers.items() if not name.startswith("proxy-")}
    head = "".join(f"{name}: {value}\r\n" for name, value in {**sent, "connection": "close"}.items())
    with socket.create_connection(("127.0.0.1", port)) as server:
        server.sendall(f"{verb} {urlsplit(url).path} {version}\r\n{head}\r\n".encode() + body)
        pieces: list[bytes] = []
        while piece := server.recv(65536):
            pieces.append(piece)
    return b"".join(pieces)


def _tunnel(client: socket.socket, port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as server:
        back = threading.Thread(target=_copy, args=(server, client), daemon=True)
        back.start()
        _copy(client, server)
        back.join(5)


def _copy(source: socket.socket, sink: socket.socket) -> None:
    try:
        while piece := source.recv(65536):
            sink.sendall(piece)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        return
