"""Where runs live: `.recipe` in the current folder, or what --home or $RECIPE_HOME names."""

import os
from pathlib import Path

from posttrain.runtime.store.products import Store
from posttrain.spec.record import record


def _access_problem(folder: Path) -> str:
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        return "its disk can only be read"
    return "it belongs to somebody else, or its rights forbid it"


@record
class Home:
    root: Path

    @property
    def store(self) -> Store:
        return Store(self.root / "store")

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    @property
    def gpu_locks(self) -> Path:
        """The locks of the GPUs that this machine's steps share."""
        return self.root / "gpu-locks"

    def run_lock(self, run: Path) -> Path:
        """The lock that a client holds as long as its run goes on."""
        return self.root / "work" / f"run-{run.name}.lock"

    def workdir(self, key: str) -> Path:
        """The working directory of a running step."""
        return self.root / "work" / key

    def step_lock(self, key: str) -> Path:
        return self.root / "work" / f"{key}.lock"

    def write_problem(self) -> str | None:
        """Why nothing can be written here, in words; None when it can. Asked before a step has run."""
        existing = self.root
        while not existing.exists():
            existing = existing.parent
        for folder in (existing, self.store.root, self.workdir("any").parent, self.runs):
            if folder.exists() and not folder.is_dir():
                return f"{folder} is not a folder"
            if folder.exists() and not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
                return f"nothing can be written to {folder}: {_access_problem(folder)}"
        return None

    def prepare(self) -> None:
        for folder in (self.root / "store", self.root / "work", self.runs):
            folder.mkdir(parents=True, exist_ok=True)
        ignore = self.root / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
