"""Where runs live: `.recipe` in the current folder, or what --home or $RECIPE_HOME names."""

from dataclasses import dataclass
from pathlib import Path

from posttrain.runtime.store import Store


@dataclass(frozen=True)
class Home:
    root: Path

    @property
    def store(self) -> Store:
        return Store(self.root / "store")

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    @property
    def slots(self) -> Path:
        """The locks of what this machine's steps share."""
        return self.root / "slots"

    def alive(self, run: Path) -> Path:
        """The lock that a client holds as long as its run goes on."""
        return self.root / "work" / f"run-{run.name}.lock"

    def work(self, key: str) -> Path:
        """The folder of a step under way."""
        return self.root / "work" / key

    def lock(self, key: str) -> Path:
        return self.root / "work" / f"{key}.lock"

    def prepare(self) -> None:
        for folder in (self.root / "store", self.root / "work", self.runs):
            folder.mkdir(parents=True, exist_ok=True)
        ignore = self.root / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
