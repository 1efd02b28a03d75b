"""The types of file systems, and what follows from them: claims, and the mode of the journal."""

import sqlite3
from pathlib import Path

import pytest

from posttrain.runtime.store import home as home_module
from posttrain.runtime.store import journal as journal_module
from posttrain.runtime.store.file_system import FileSystem, file_system_of, parse_mount
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.journal import Journal
from posttrain.runtime.store.lock_claims import uses_claims

MOUNT = "36 35 0:52 / /home rw,noatime shared:1 - {} server:/home {}"


@pytest.mark.parametrize(
    ("type", "options", "network", "shared"),
    [
        ("ext4", "rw", False, True),
        ("overlay", "rw,lowerdir=/a", False, True),
        ("nfs4", "rw,vers=4.2,local_lock=none", True, True),
        ("nfs", "rw,nolock,local_lock=all", True, False),
        ("lustre", "rw,flock,lazystatfs", True, True),
        ("lustre", "rw,localflock", True, False),
        ("lustre", "rw,lazystatfs", True, False),
        ("fuse.sshfs", "rw,user_id=0", True, False),
        ("beegfs", "rw", True, False),
        ("gpfs", "rw", True, True),
    ],
)
def test_the_mount_says_whether_locks_are_shared(
    type: str, options: str, *, network: bool, shared: bool
) -> None:
    found = parse_mount(MOUNT.format(type, options))
    assert (found.type, found.is_network, found.shares_locks) == (type, network, shared)


def test_the_file_system_of_a_folder_is_found(tmp_path: Path) -> None:
    assert file_system_of(Path("/proc")).type == "proc"
    assert not file_system_of(tmp_path).is_network


def be_on(monkeypatch: pytest.MonkeyPatch, type: str) -> None:
    def found(folder: Path) -> FileSystem:
        return FileSystem(type)

    monkeypatch.setattr(journal_module, "file_system_of", found)


@pytest.mark.parametrize(("type", "mode"), [("ext4", "wal"), ("nfs4", "delete"), ("lustre", "delete")])
def test_the_mode_of_the_journal_suits_the_file_system(
    type: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    be_on(monkeypatch, type)
    path = tmp_path / "journal.sqlite"
    journal = Journal(path)
    journal.set("began", 1)
    assert (tmp_path / "journal.sqlite-wal").exists() == (mode == "wal")
    be_on(monkeypatch, "ext4")
    reader = Journal(path, read=True)  # on the server of the file system, while the writer is active
    assert reader.get("began") == 1
    reader.close()
    journal.set("ended", 2)
    journal.close()
    with sqlite3.connect(path) as found:
        assert found.execute("PRAGMA journal_mode").fetchone() == (mode,)


@pytest.mark.parametrize("shared", [True, False])
def test_a_home_on_a_file_system_without_shared_locks_uses_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, shared: bool
) -> None:
    def lustre(folder: Path) -> FileSystem:
        return FileSystem("lustre", frozenset({"flock"} if shared else ()))

    monkeypatch.setattr(home_module, "file_system_of", lustre)
    home = Home(tmp_path)
    home.prepare()
    assert uses_claims(tmp_path / "work") != shared
