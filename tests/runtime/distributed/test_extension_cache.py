"""The lock file of a killed builder is removed, that of a running builder is not."""

import subprocess
import sys
from pathlib import Path

import pytest

from posttrain.runtime.distributed import extension_cache

LOCK_HOLDER_SCRIPT = (
    "from posttrain.runtime.distributed.extension_cache import use_extension_cache;"
    " use_extension_cache(); print('here',"
    " flush=True); input()"
)


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("TORCH_EXTENSIONS_DIR", raising=False)
    mark = extension_cache.extensions_dir() / "deepspeed_shm_comm" / "lock"
    mark.parent.mkdir(parents=True)
    mark.touch()
    return mark


def builder() -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", LOCK_HOLDER_SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    return process


def test_a_dead_builders_mark_is_removed(mark: Path) -> None:
    builder().kill()
    assert not mark.exists()


def test_a_living_builders_mark_stays_until_it_is_killed(mark: Path) -> None:
    with builder() as first:
        mark.touch()
        with builder() as second:
            assert mark.exists()
            second.kill()
        first.kill()
    with builder() as third:
        assert not mark.exists()
        third.kill()


def test_a_folder_of_the_users_is_left_alone(mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(mark.parent.parent))
    with builder() as process:
        assert mark.exists()
        process.kill()
