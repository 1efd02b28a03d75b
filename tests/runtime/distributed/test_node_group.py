"""Several nodes of a step: signs of life, the address at which they meet, and the cause of a failure."""

import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from tests.conftest import require_service
from tests.runtime.resizable_tmpfs import can_mount, resizable_tmpfs, resize, used_bytes

from posttrain.runtime import worker
from posttrain.runtime.distributed import heartbeats, node_rendezvous, peer_nodes
from posttrain.runtime.distributed.heartbeats import Heartbeat, HeartbeatWatch
from posttrain.runtime.distributed.node_group import NodeGroup
from posttrain.runtime.distributed.node_rendezvous import meet_as_first, meet_as_other
from posttrain.runtime.distributed.peer_nodes import PeerNodes, node_end
from posttrain.runtime.distributed.rank_failures import RankError
from posttrain.runtime.errors import NO_SPACE, STOPPED, StepError
from posttrain.runtime.runners.cluster.attempt_files import AttemptFiles
from posttrain.runtime.step_context import StopRequest
from posttrain.runtime.store.reserved_files import reserve
from posttrain.spec.step_records import NodeAddress, NodeBeat, NodeEnd


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "0123456789abcdef").mkdir()
    return tmp_path / "0123456789abcdef"


def beat(folder: Path, index: int, number: int = 1) -> None:
    NodeGroup(index, 3, folder).beat(NodeBeat(node=f"n{index}", beat=number))


def rank_error(at: float, text: str = "Connection closed by peer", *, is_cause: bool = False) -> RankError:
    return RankError(StepError(text), at=at, is_cause=is_cause)


def ended(folder: Path, index: int, error: BaseException | None, status: int = 1) -> None:
    NodeGroup(index, 3, folder).end(node_end(error, status))


class Clock:
    """A monotonic clock that a test advances."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        for module in (heartbeats, peer_nodes):
            patch.setattr(module.time, "monotonic", lambda: self.now)
            patch.setattr(module.time, "sleep", self.advance)

    def advance(self, seconds: float) -> None:
        self.now += seconds


def test_a_void_group_writes_nothing(tmp_path: Path) -> None:
    group = NodeGroup(1, 2, tmp_path / "gone")
    assert group.is_void
    ended(tmp_path / "gone", 1, None)
    group.reserve_end()
    group.write("address.json", NodeAddress(addresses=(), port=1))
    heartbeat = Heartbeat(group, "n2")
    heartbeat.start()
    heartbeat.stop()
    assert list(tmp_path.iterdir()) == []


def test_a_heartbeat_is_heard_and_its_end_is_silence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "BEAT_SECONDS", 0.02)
    heartbeat = Heartbeat(NodeGroup(1, 2, folder), "n2")
    watch = HeartbeatWatch(NodeGroup(0, 2, folder), [1])
    assert not watch.has_joined(1)
    assert watch.name(1) == "2 of 2"
    heartbeat.start()
    for _ in range(20):
        time.sleep(0.02)
        watch.update()
        assert watch.silence(1) < 0.3
    assert watch.has_joined(1)
    assert watch.name(1) == "n2"
    heartbeat.stop()
    deadline = time.monotonic() + 5
    while watch.silence(1) < 0.2 and time.monotonic() < deadline:
        time.sleep(0.01)
        watch.update()
    assert watch.silence(1) >= 0.2


def test_a_pause_of_the_reader_is_no_silence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was frozen, or waited for the disk: the others may have been heard meanwhile."""
    clock = Clock(monkeypatch)
    beat(folder, 1)
    watch = HeartbeatWatch(NodeGroup(0, 3, folder), [1])
    clock.advance(1)
    watch.update()
    clock.advance(1000)
    watch.update()
    assert watch.silence(1) <= 2
    for _ in range(20):
        clock.advance(1)
        watch.update()
    assert watch.silence(1) >= 20


def test_nodes_meet_at_an_address_that_all_reach(folder: Path) -> None:
    found: dict[int, tuple[str, int]] = {}

    def meet(index: int) -> None:
        point = meet_as_other(NodeGroup(index, 3, folder))
        found[index] = point.address, point.port

    threads = [threading.Thread(target=meet, args=(index,)) for index in (1, 2)]
    for thread in threads:
        thread.start()
    first = meet_as_first(NodeGroup(0, 3, folder), 3, lambda: None)
    for thread in threads:
        thread.join()
    assert first.listener is not None
    first.listener.close()
    assert found == dict.fromkeys((1, 2), (first.address, first.port))


def test_another_program_at_the_address_is_not_node_0(folder: Path) -> None:
    """A port can belong to a program of another step, which also answers."""
    with node_rendezvous.answering("another attempt") as port:
        offered = NodeAddress(addresses=("127.0.0.1",), port=port)
        NodeGroup(0, 2, folder).write("candidates.json", offered)
        with pytest.raises(StepError, match=r"reaches none of the addresses .* 127\.0\.0\.1"):
            meet_as_other(NodeGroup(1, 2, folder))


def test_a_lost_node_ends_the_meeting(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_nodes, "LOST_SECONDS", 0.5)
    peers = PeerNodes(NodeGroup(0, 2, folder))
    with pytest.raises(StepError, match="is lost"):
        meet_as_first(NodeGroup(0, 2, folder), 2, peers.check)


def test_an_interface_of_the_user_is_the_only_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "127.0.0.1" in node_rendezvous.candidate_addresses()
    assert node_rendezvous.candidate_addresses()[-1].startswith("127.")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    assert node_rendezvous.candidate_addresses() == ["127.0.0.1"]


def test_a_name_that_resolves_to_the_loopback_interface_is_no_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in /etc/hosts of Debian. Libraries would listen there, so they get the interface."""
    monkeypatch.setattr(socket, "gethostbyname", Mock(return_value="127.0.1.1"))
    addresses = {"lo": "127.0.0.1", "docker0": "172.17.0.1", "ib0": "10.0.0.7"}
    monkeypatch.setattr(node_rendezvous, "interface_addresses", lambda: addresses)
    assert node_rendezvous.candidate_addresses() == ["172.17.0.1", "10.0.0.7", "127.0.1.1", "127.0.0.1"]
    assert vars(node_rendezvous)["_needed_interface"]("10.0.0.7") == "ib0"


def test_a_node_without_an_ipv4_network_is_an_error_with_advice(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostbyname", Mock(side_effect=OSError("no address for this name")))
    monkeypatch.setattr(node_rendezvous, "interface_addresses", lambda: {"lo": "127.0.0.1"})
    offered = node_rendezvous.candidate_addresses()
    assert offered == ["127.0.0.1"]
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # node 0 answers on another machine
        address = NodeAddress(addresses=tuple(offered), port=closed.getsockname()[1])
        NodeGroup(0, 2, folder).write("candidates.json", address)
        with pytest.raises(StepError, match=r"none of the addresses of the first node: 127") as raised:
            meet_as_other(NodeGroup(1, 2, folder))
    assert "IPv4" in raised.value.advice


def test_a_silent_node_is_lost_and_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    peers = PeerNodes(NodeGroup(0, 3, folder))

    def listen() -> None:
        for number in range(1, 30):
            clock.advance(0.5)
            beat(folder, 1, number)
            beat(folder, 2, min(number, 4))
            peers.check()

    with pytest.raises(StepError, match="node n2 is lost") as raised:
        listen()
    assert raised.value.retriable
    assert 8 < clock.now - 100 - 2 < 12


@pytest.mark.parametrize(
    "case", ["killed there", "killed here", "lost", "error there", "error by a fast clock", "error here"]
)
def test_the_cause_is_found_among_the_consequences(
    case: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes whose peer is gone fail with network errors, often before the cause is known."""
    clock = Clock(monkeypatch)
    for index in range(3):
        beat(folder, index)
    peers = PeerNodes(NodeGroup(0, 3, folder))
    clock.advance(1)
    assert not peers.all_ended()
    mine = rank_error(at=10.0)
    ended(folder, 1, rank_error(at=11.0))
    match case:
        case "killed there":
            killed = "process 2 of 3 was killed by signal 9"
            ended(folder, 2, RankError(StepError(killed, retriable=True), at=12.0, is_cause=True))
            expected = "process 2 of 3 was killed by signal 9, on node n2"
        case "killed here":
            ended(folder, 2, rank_error(at=5.0))
            mine = rank_error(at=10.0, text="process 0 of 3 was killed", is_cause=True)
            expected = "process 0 of 3 was killed, on node n0"
        case "lost":
            expected = "node n2 is lost"
        case "error there":
            ended(folder, 2, rank_error(at=5.0, text="the reward raised"))
            expected = "the reward raised, on node n2"
        case "error by a fast clock":
            ended(folder, 2, rank_error(at=3600.0, text="the reward raised"))
            expected = "the reward raised, on node n2"
        case _:
            ended(folder, 2, rank_error(at=12.0))
            expected = "Connection closed by peer, on node n0"
    found = peers.blame(mine)
    assert expected in str(found)
    # A lost connection is a fault of the network if no process and no node is the cause.
    assert found.retriable == (case in ("killed there", "lost", "error here"))


def test_the_end_of_a_node_without_an_error_is_no_failure(folder: Path) -> None:
    peers = PeerNodes(NodeGroup(0, 3, folder))
    for index in (1, 2):
        ended(folder, index, None, STOPPED if index == 2 else 0)
    time.sleep(0.3)
    assert peers.all_ended()
    peers.check()
    assert peers.any_stopped()
    assert NodeGroup(0, 3, folder).ended(1) == NodeEnd(status=0)


def test_the_end_of_a_node_reaches_a_full_disk(tmp_path: Path) -> None:
    """Its sign of life too: a node that only lacks space is not lost."""
    require_service("the right to mount", can_mount(tmp_path / "disk") or None, "run the tests as root")
    folder = tmp_path / "disk" / "attempts" / "0123456789abcdef"
    (tmp_path / "disk").rmdir()
    with resizable_tmpfs(tmp_path / "disk", wanted=True):
        files = AttemptFiles(tmp_path / "disk", folder.name)
        folder.mkdir(parents=True)
        beat(folder, 1)
        NodeGroup(1, 3, folder).reserve_end()
        reserve(folder / "ended.json")
        resize(tmp_path / "disk", used_bytes(tmp_path / "disk"))
        with pytest.raises(OSError, match="No space left"):
            (folder / "other").write_bytes(b"x" * (1 << 20))
        (folder / "other").unlink()
        watch = HeartbeatWatch(NodeGroup(0, 3, folder), [1])
        beat(folder, 1, 2)
        time.sleep(0.3)
        assert watch.update()
        assert watch.silence(1) == 0
        error = StepError("no space", details="x" * 100_000)
        ended(folder, 1, error)
        files.end(NO_SPACE, terminated=False)
        found, end = NodeGroup(0, 3, folder).ended(1), files.ended()
        assert found is not None
        assert found.failure is not None
        assert found.failure.message == "no space"
        assert end is not None
        assert end.status == NO_SPACE


def test_a_worker_of_a_void_attempt_leaves_the_work_of_the_next_one(tmp_path: Path) -> None:
    """Its node was frozen before it started the worker."""
    work = tmp_path / "work"
    (work / "files").mkdir(parents=True)
    kept = [work / name for name in ("files/weights", "receipt.json", "failure.json")]
    for path in kept:
        path.write_text("of the next attempt")
    assert worker.main(work, NodeGroup(0, 2, work / "attempts" / "gone")) == STOPPED
    assert [path.read_text() for path in kept] == ["of the next attempt"] * 3


@pytest.mark.parametrize("fails", [True, False])
def test_a_step_that_became_void_reports_no_result(
    fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = NodeGroup(0, 2, tmp_path / "attempts" / "one")
    group.folder.mkdir(parents=True)

    def run(*_: object) -> None:
        group.folder.rmdir()
        if fails:
            raise StepError("Connection closed by peer")

    context = SimpleNamespace(stop=StopRequest())
    monkeypatch.setattr(worker, "create_context", Mock(return_value=context))
    monkeypatch.setattr(worker, "handle_signals", Mock())
    monkeypatch.setattr(worker, "run_step", run)
    assert worker.main(tmp_path, group) == STOPPED
    assert not list(tmp_path.glob("*.json"))
