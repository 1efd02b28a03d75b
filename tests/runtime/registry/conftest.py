"""Registries of the tests, and an empty cache and configuration of the user."""

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.runtime.registry.fake_registry import FakeRegistry, serve_registry


@pytest.fixture(autouse=True)
def user_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def fake() -> Generator[FakeRegistry]:
    with serve_registry() as state:
        yield state
