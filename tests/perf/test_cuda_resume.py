"""The comparison of killed and undisturbed runs on a GPU: what it starts from, and what it finds."""

import os
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from perf.cuda import resume


def test_all_runs_start_from_one_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first stage that computes differently every time would make all later stages differ."""

    def train(_folder: Path, home: Path, _seconds: float, *options: str) -> None:
        assert options == ("--only", "start")
        (home / "store").mkdir(parents=True)
        (home / "store" / "weights").write_bytes(os.urandom(64))

    monkeypatch.setattr(resume, "run_recipe", train)
    homes = [tmp_path / name for name in ("first", "second", "killed")]
    resume.train_start(tmp_path, homes, 60)
    assert len({(home / "store" / "weights").read_bytes() for home in homes}) == 1


@dataclass
class FakeRun:
    made: Any
    losses: list[float]
    folder: Path

    def product(self, _stage: str) -> Any:
        return self.made

    def metrics(self, _stage: str, _name: str) -> list[float]:
        return self.losses

    def record(self, _stage: str) -> Path:
        return self.folder


def run(folder: Path, digest: str, losses: list[float]) -> Any:
    folder.mkdir()
    (folder / "events.jsonl").write_text('{"kind": "resumed", "step": 4}\n')
    product = SimpleNamespace(digests={"model.safetensors": digest, "config.json": "same"})
    return FakeRun(product, losses, folder)


def test_a_changed_weight_is_found(tmp_path: Path) -> None:
    first, second = (run(tmp_path / name, "a", [3.0, 2.0]) for name in ("first", "second"))
    other = run(tmp_path / "other", "b", [3.0, 2.5])
    differing: list[str] = []
    row = resume.resume_row(first, second, other, 4, "sft", differing)
    assert row == [4, "4", "identical", "differs", None, 2, "model.safetensors"]
    assert differing == []
    row = resume.resume_row(first, other, first, 4, "sft", differing)
    assert row == [4, "4", "differ", "identical", 2, None, ""]
    assert differing == ["sft"]
