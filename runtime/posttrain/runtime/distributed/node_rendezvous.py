"""The address at which the nodes of a step meet.

No configuration names it: a machine has several addresses, and which of them the other nodes reach depends
on the network. Node 0 publishes its candidates, the others try them, and node 0 selects the first that all
reach. A connection counts only if node 0 answers with the name of the attempt.
"""

import contextlib
import fcntl
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from posttrain.runtime.distributed.node_group import NodeGroup
from posttrain.runtime.errors import StepError
from posttrain.spec.step_records import NodeAddress

_GET_ADDRESS = 0x8915  # SIOCGIFADDR
_CONNECT_SECONDS, _MEETING_SECONDS, _POLL_SECONDS = 3.0, 120.0, 0.05
_INTERFACE_VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
_ADVICE = (
    "nodes need an IPv4 network in which they reach each other on any port; name its interface with"
    " `environment: {GLOO_SOCKET_IFNAME: NAME}` of the place"
)


@dataclass(frozen=True)
class MeetingPoint:
    """Where the processes of all nodes meet."""

    address: str
    port: int
    # The network interface of this node, if libraries would select another one by themselves.
    interface: str | None = None
    # On node 0, a socket that listens there.
    listener: socket.socket | None = None
    # Of another node, its own address in that network.
    own_address: str = ""


def meet_as_first(group: NodeGroup, size: int, check: Callable[[], None]) -> MeetingPoint:
    """Select the address, and listen there for `size` processes. `check` raises if a node is lost."""
    with answering(group.folder.name) as port:
        group.write("candidates.json", NodeAddress(addresses=tuple(candidate_addresses()), port=port))
        reached = [_await(group, f"reached-{index}.json", check).addresses for index in group.others]
    common = [address for address in reached[0] if all(address in other for other in reached)]
    if not common:
        raise StepError("the nodes of the step reach no common address of the first node", _ADVICE)
    listener = socket.socket()
    listener.bind((common[0], 0))
    listener.listen(size)
    port = listener.getsockname()[1]
    group.write("address.json", NodeAddress(addresses=(common[0],), port=port))
    return MeetingPoint(common[0], port, _needed_interface(common[0]), listener)


def meet_as_other(group: NodeGroup) -> MeetingPoint:
    """Try the addresses of node 0, and wait for its choice."""
    offered = _await(group, "candidates.json")
    own = {
        address: local
        for address in offered.addresses
        if (local := _try_address(address, offered.port, group.folder.name)) is not None
    }
    group.write(f"reached-{group.index}.json", NodeAddress(addresses=tuple(own), port=0))
    if not own:
        tried = ", ".join(offered.addresses)
        raise StepError(f"this node reaches none of the addresses of the first node: {tried}", _ADVICE)
    chosen = _await(group, "address.json")
    address = chosen.addresses[0]
    interface = _needed_interface(own[address])
    return MeetingPoint(address, chosen.port, interface, own_address=own[address])


def candidate_addresses() -> list[str]:
    """The addresses of this machine: first that of its name, the loopback interface last. An interface that
    the user names is the only one."""
    interfaces = interface_addresses()
    named = next((os.environ[name] for name in _INTERFACE_VARIABLES if name in os.environ), None)
    if named in interfaces:
        return [interfaces[named]]
    found = [_own_address(), *interfaces.values()]
    return sorted(dict.fromkeys(filter(None, found)), key=lambda address: address.startswith("127."))


def interface_addresses() -> dict[str, str]:
    """The IPv4 address of each network interface that has one."""
    found: dict[str, str] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                request = struct.pack("256s", name.encode()[:15])
                answer = fcntl.ioctl(any_socket.fileno(), _GET_ADDRESS, request)
                found[name] = socket.inet_ntoa(answer[20:24])
    return found


def _own_address() -> str:
    """The address to which the name of this machine resolves, which gloo uses by default."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return ""


def _needed_interface(address: str) -> str | None:
    if address == _own_address():
        return None
    return next((name for name, own in interface_addresses().items() if own == address), None)


@contextmanager
def answering(token: str) -> Generator[int]:
    """In this context, answer on all addresses with the token."""
    with socket.socket() as listener:
        listener.bind(("", 0))
        listener.listen(64)
        listener.settimeout(_POLL_SECONDS)
        over = threading.Event()

        def answer() -> None:
            while not over.is_set():
                with contextlib.suppress(OSError):
                    connection, _ = listener.accept()
                    with connection:
                        connection.sendall(token.encode())

        thread = threading.Thread(target=answer, name="rendezvous", daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            over.set()
            thread.join()


def _try_address(address: str, port: int, token: str) -> str | None:
    """The own address of a connection on which the first node answered."""
    try:
        with socket.create_connection((address, port), _CONNECT_SECONDS) as connection:
            connection.settimeout(_CONNECT_SECONDS)
            received = b""
            while chunk := connection.recv(64):
                received += chunk
            return connection.getsockname()[0] if received == token.encode() else None
    except OSError:
        return None


def _await(group: NodeGroup, name: str, check: Callable[[], None] = lambda: None) -> NodeAddress:
    deadline = time.monotonic() + _MEETING_SECONDS
    while (found := group.read(NodeAddress, name)) is None:
        check()
        if time.monotonic() > deadline or group.is_void:
            raise StepError(
                f"the nodes of the step did not meet within {_MEETING_SECONDS:g} s ({name} is missing)",
                "see record/log and record/node-N.log",
                retriable=True,
            )
        time.sleep(_POLL_SECONDS)
    return found
