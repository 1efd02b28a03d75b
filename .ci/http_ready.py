"""Exit 0 if `GET PATH` at ADDRESS (unix://SOCKET or tcp://HOST:PORT) returns 200."""

import socket
import sys


def connect(address: str) -> socket.socket:
    kind, _, place = address.partition("://")
    if kind == "unix":
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(5)
        connection.connect(place)
        return connection
    host, _, port = place.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=5)


def responds_ok(address: str, path: str) -> bool:
    try:
        with connect(address) as connection:
            connection.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
            return b" 200 " in connection.recv(64)
    except OSError:
        return False


sys.exit(not responds_ok(sys.argv[1], sys.argv[2]))
