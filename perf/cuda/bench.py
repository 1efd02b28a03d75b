"""What every part works with: the sizes, its report, a scratch folder, and the time that is left."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from perf.cuda.forked import run_forked
from perf.cuda.recipes import write_model
from perf.cuda.results import Report, Table
from perf.cuda.scale import Scale

_RESERVE_SECONDS = 10  # to write the page


class Bench:
    def __init__(
        self, scale: Scale, report: Report, folder: Path, seconds: float, image: str | None = None
    ) -> None:
        self.scale = scale
        # Of the step in a container: by default what `containers/build` names.
        self.image = image or f"posttrain-{'cpu' if scale.dry else 'cuda'}:latest"
        self.report = report
        self.folder = folder
        self._deadline = time.monotonic() + seconds - _RESERVE_SECONDS
        self._models: dict[str, Path] = {}

    def left(self) -> float:
        """The seconds until the part must end."""
        return self._deadline - time.monotonic()

    def model(self, name: str) -> Path:
        """The folder of a model with random weights, which is written once."""
        if name not in self._models:
            folder = self.folder / f"model-{name}"
            scale = self.scale
            run_forked(lambda: write_model(folder, scale, name), self.folder / "models" / name, self.left())
            self._models[name] = folder
        return self._models[name]

    def new_folder(self, name: str) -> Path:
        """An empty folder in the scratch folder."""
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def fork(self, name: str, work: Callable[[], Any], seconds: float = 180) -> Any:
        """Run a function in a process of its own, within the time that is left."""
        return run_forked(work, self.new_folder(f"forked/{name}"), min(seconds, self.left()))

    def attempt(self, table: Table, name: str, needs: float, work: Callable[[], list[Any]]) -> None:
        """Add a row with the cells that `work` returns, or with the cause why there are none. `needs` are the
        seconds that it usually takes."""
        if self.left() < needs:
            cells = [f"not run: {max(0.0, self.left()):.0f} s left, about {needs:.0f} s needed"]
        else:
            try:
                cells = work()
            except Exception as error:
                cells = [f"failed: {last_lines(error)}"]
        missing = len(table.head) - 1 - len(cells)
        self.report.add(table, name, *cells, *([None] * missing))


def last_lines(error: BaseException) -> str:
    """The type and the message of an error, without the middle of a long log."""
    text = f"{type(error).__name__}: {error}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join([*lines[:1], *lines[1:][-2:]])[:500]
