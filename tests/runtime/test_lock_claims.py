"""Claim files: locks between machines whose file system does not share them."""

import errno
import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from posttrain.runtime.store import file_locks, lock_claims
from posttrain.runtime.store.file_locks import is_held, try_lock
from posttrain.runtime.store.lock_claims import claim_path, stale_claim, use_claims


@pytest.fixture
def path(tmp_path: Path) -> Path:
    use_claims(tmp_path)
    return tmp_path / "a.lock"


def be(monkeypatch: pytest.MonkeyPatch, machine: str) -> None:
    """Act as another machine, whose `flock` does not see the locks of the others."""
    monkeypatch.setattr(lock_claims, "machine_identity", lambda: machine)
    monkeypatch.setattr(file_locks, "_lock_file", _open_own(machine))


def _open_own(machine: str) -> Callable[[Path], int]:
    def lock(path: Path) -> int:
        path.touch()
        return os.open(path.with_name(f"{machine}-{path.name}"), os.O_RDWR | os.O_CREAT)

    return lock


def test_another_machine_does_not_get_a_claimed_lock(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    be(monkeypatch, "one")
    held = try_lock(path)
    assert held is not None
    be(monkeypatch, "two")
    assert try_lock(path) is None
    assert is_held(path)
    held.discard()
    again = try_lock(path)
    assert again is not None
    assert claim_path(path).exists()
    again.release()
    assert not claim_path(path).exists()


def test_without_claims_a_lock_of_one_machine_does_not_hold_on_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the claims are for."""
    be(monkeypatch, "one")
    assert try_lock(tmp_path / "a.lock") is not None
    be(monkeypatch, "two")
    assert try_lock(tmp_path / "a.lock") is not None


def test_a_claim_of_a_dead_process_of_this_machine_is_free(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    be(monkeypatch, "one")
    assert try_lock(path) is not None
    assert try_lock(path) is not None  # the kernel gave us the lock: the owner of the claim is dead


def test_a_claim_of_another_machine_is_broken_only_if_it_is_stale_and_its_job_is_gone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    be(monkeypatch, "one")
    assert try_lock(path) is not None
    be(monkeypatch, "two")
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert try_lock(path, lambda: True) is None  # seen for the first time
    now += 300
    assert try_lock(path) is None  # nobody says that its work is over
    assert try_lock(path, lambda: False) is None  # the engine has the job
    waits = stale_claim(path)
    assert waits is not None
    assert str(claim_path(path)) in waits
    os.utime(claim_path(path), (1, 1))  # the other machine renews it
    assert try_lock(path, lambda: True) is None
    assert stale_claim(path) is None
    now += 300
    assert try_lock(path, lambda: True) is not None
    owner = claim_path(path).read_text()
    assert '"two"' in owner


def test_a_file_system_without_locks_uses_a_lock_of_this_machine(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fcntl.flock

    def refuse(descriptor: int, operation: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink() == path:
            raise OSError(errno.ENOLCK, "No locks available")
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", refuse)
    held = try_lock(path)
    assert held is not None
    assert try_lock(path) is None
    assert is_held(path)
    held.discard()
    assert try_lock(path) is not None
