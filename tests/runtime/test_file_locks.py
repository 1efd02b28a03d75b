"""File locks with removable files: no process holds a lock on a removed file."""

import threading
from pathlib import Path

from posttrain.runtime.store.file_locks import Lock, acquire_lock, is_held, try_lock


def test_who_waited_for_a_lock_that_is_discarded_holds_the_one_that_others_see(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    first = acquire_lock(path)
    assert try_lock(path) is None
    assert is_held(path)
    got: list[Lock] = []
    waiting = threading.Thread(target=lambda: got.append(acquire_lock(path)))
    waiting.start()
    first.discard()
    waiting.join(timeout=30)
    assert len(got) == 1
    assert path.exists()
    assert try_lock(path) is None
    got[0].discard()
    assert not path.exists()


def test_asking_makes_no_file(tmp_path: Path) -> None:
    assert not is_held(tmp_path / "none.lock")
    assert not (tmp_path / "none.lock").exists()


def test_many_who_take_and_discard_one_lock_never_hold_it_together(tmp_path: Path) -> None:
    path, inside, together = tmp_path / "a.lock", [0], [0]

    def take() -> None:
        for _ in range(200):
            held = try_lock(path)
            if held is None:
                continue
            inside[0] += 1
            together[0] = max(together[0], inside[0])
            inside[0] -= 1
            held.discard()

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == [1]
