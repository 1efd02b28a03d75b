"""Cached entries are used as they were written, and written again if anything is wrong with them."""

import multiprocessing
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from posttrain.runtime.training_rows.arrow_cache import cache_folder, cached_entry, part_file


def builder(folder: Path, text: bytes = b"rows") -> Callable[[Path], Mapping[str, Any]]:
    """A build that counts its calls in a file, which processes share."""

    def build(target: Path) -> Mapping[str, Any]:
        with (folder / "calls").open("a") as calls:
            calls.write("x")
        part_file(target, 0).write_bytes(text)
        return {"rows": len(text)}

    return build


def calls(folder: Path) -> int:
    return len((folder / "calls").read_text())


def test_a_second_call_builds_nothing(tmp_path: Path) -> None:
    first = cached_entry(tmp_path / "cache", {"a": 1}, builder(tmp_path))
    second = cached_entry(tmp_path / "cache", {"a": 1}, builder(tmp_path))
    assert calls(tmp_path) == 1
    assert first == second
    assert [file.read_bytes() for file in second.files] == [b"rows"]
    assert second.facts == {"rows": 4}


def test_other_parts_are_another_entry(tmp_path: Path) -> None:
    first = cached_entry(tmp_path / "cache", {"a": 1}, builder(tmp_path))
    second = cached_entry(tmp_path / "cache", {"a": 2}, builder(tmp_path))
    assert calls(tmp_path) == 2
    assert first.key != second.key


def change_a_byte(entry: Path) -> None:
    part_file(entry, 0).write_bytes(b"rowz")


def truncate(entry: Path) -> None:
    part_file(entry, 0).write_bytes(b"row")


def remove_a_file(entry: Path) -> None:
    part_file(entry, 0).unlink()


def damage_the_record(entry: Path) -> None:
    (entry / "entry.json").write_text("{")


def name_a_file_elsewhere(entry: Path) -> None:
    text = (entry / "entry.json").read_text()
    (entry / "entry.json").write_text(text.replace("part-00000.arrow", "../part-00000.arrow"))


def take_the_record_of_another(entry: Path) -> None:
    text = (entry / "entry.json").read_text()
    (entry / "entry.json").write_text(text.replace(entry.name, "0" * 32))


def link_a_file(entry: Path) -> None:
    part_file(entry, 0).rename(entry.parent / "elsewhere")
    part_file(entry, 0).symlink_to(entry.parent / "elsewhere")


def replace_by_a_file(entry: Path) -> None:
    shutil.rmtree(entry)
    entry.write_text("not a folder")


@pytest.mark.parametrize(
    "damage",
    [
        change_a_byte,
        truncate,
        remove_a_file,
        damage_the_record,
        name_a_file_elsewhere,
        take_the_record_of_another,
        link_a_file,
        replace_by_a_file,
    ],
)
def test_a_damaged_entry_is_written_again(damage: Callable[[Path], None], tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    entry = cached_entry(cache, {"a": 1}, builder(tmp_path))
    damage(cache / entry.key)
    again = cached_entry(cache, {"a": 1}, builder(tmp_path))
    assert calls(tmp_path) == 2
    assert [file.read_bytes() for file in again.files] == [b"rows"]
    assert cached_entry(cache, {"a": 1}, builder(tmp_path)) == again
    assert calls(tmp_path) == 2


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    def build(target: Path) -> Mapping[str, Any]:
        part_file(target, 0).write_bytes(b"half")
        raise ValueError("bad row")

    with pytest.raises(ValueError, match="bad row"):
        cached_entry(tmp_path / "cache", {"a": 1}, build)
    assert [path for path in (tmp_path / "cache").iterdir() if path.is_dir()] == []


def test_processes_build_an_entry_once(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")

    def find() -> None:
        cached_entry(tmp_path / "cache", {"a": 1}, builder(tmp_path))

    started = [fork.Process(target=find) for _ in range(4)]
    for process in started:
        process.start()
    for process in started:
        process.join()
    assert [process.exitcode for process in started] == [0] * 4
    assert calls(tmp_path) == 1


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")

    def die(target: Path) -> Mapping[str, Any]:
        part_file(target, 0).write_bytes(b"half")
        os._exit(1)

    process = fork.Process(target=cached_entry, args=(tmp_path / "cache", {"a": 1}, die))
    process.start()
    process.join()
    assert [path for path in (tmp_path / "cache").iterdir() if path.is_dir()]
    entry = cached_entry(tmp_path / "cache", {"a": 1}, builder(tmp_path))
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.is_dir()] == [entry.key]


def test_a_step_that_cannot_write_the_cache_of_the_home_has_its_own(tmp_path: Path) -> None:
    work = tmp_path / "home" / "work" / "key"
    work.mkdir(parents=True)
    context: Any = SimpleNamespace(work=work)
    assert cache_folder(context) == tmp_path / "home" / "row-cache"
    (tmp_path / "home" / "row-cache").rmdir()
    (tmp_path / "home" / "row-cache").write_text("a file")
    assert cache_folder(context) == work / "scratch" / "row-cache"
