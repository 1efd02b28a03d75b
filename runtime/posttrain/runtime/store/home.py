"""The layout of a home, the folder of all runs: `.recipe` by default, or --home, or $RECIPE_HOME."""

import os
from pathlib import Path

from posttrain.runtime.store.file_system import file_system_of
from posttrain.runtime.store.lock_claims import use_claims
from posttrain.runtime.store.products import Store
from posttrain.spec.record import record


def _access_problem(folder: Path) -> str:
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        return "its file system is read-only"
    return "permission denied"


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
        """The folder of the GPU locks, which the runs on this machine share."""
        return self.root / "gpu-locks"

    @property
    def node_pools(self) -> Path:
        """The folder of the nodes of clusters that take steps in turn."""
        return self.root / "nodes"

    @property
    def row_cache(self) -> Path:
        """The folder of training rows in files for memory maps (`training_rows/arrow_cache.py`)."""
        return self.root / "row-cache"

    def run_lock(self, run: Path) -> Path:
        """The lock that a client holds while its run is active."""
        return self.root / "work" / f"run-{run.name}.lock"

    def workdir(self, key: str) -> Path:
        """The working directory of a running step."""
        return self.root / "work" / key

    def step_lock(self, key: str) -> Path:
        return self.root / "work" / f"{key}.lock"

    def write_problem(self) -> str | None:
        """Why the home is not writable, or None when it is. Checked before any step runs."""
        existing = self.root
        while not existing.exists():
            existing = existing.parent
        for folder in (existing, self.store.root, self.workdir("any").parent, self.runs):
            if folder.exists() and not folder.is_dir():
                return f"{folder} is not a folder"
            if folder.exists() and not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
                return f"{folder} is not writable: {_access_problem(folder)}"
        return None

    def prepare(self) -> None:
        for folder in (self.root / "store", self.root / "work", self.runs):
            folder.mkdir(parents=True, exist_ok=True)
        if not file_system_of(self.root).shares_locks:
            use_claims(self.workdir("any").parent)
        ignore = self.root / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
