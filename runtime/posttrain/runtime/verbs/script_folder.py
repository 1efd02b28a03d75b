"""The working directory of a program.

inputs/ROLE    the product of another step, or one part of a dataset
outputs/       the product under construction, empty at the start of each attempt
state/         what an interrupted attempt leaves for the next one
               and the declared files of the recipe
"""

import shutil
from pathlib import Path

from posttrain.runtime.step_context import StepContext

INPUTS, OUTPUTS, STATE = "inputs", "outputs", "state"


def prepare_folder(context: StepContext, folder: Path) -> None:
    """Create the directory. Nothing of an earlier attempt stays but its state."""
    clear_folder(folder)
    (folder / INPUTS).mkdir(parents=True)
    for name, path in context.files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
        target.chmod(0o755)
    for role, path in context.inputs.items():
        _link_input(folder / INPUTS / role, path, context.part(role))
    (folder / OUTPUTS).symlink_to(context.out)
    state = context.work / "state"
    state.mkdir(exist_ok=True)
    (folder / STATE).symlink_to(state)


def _link_input(link: Path, path: Path, part: str | None) -> None:
    """Link to a product. Of a dataset with a named part, the program sees only that part."""
    if part is None:
        link.symlink_to(path)
        return
    link.mkdir()
    (link / f"{part}.parquet").symlink_to(path / f"{part}.parquet")


def clear_folder(folder: Path) -> None:
    """Remove the directory, not what its links refer to."""
    if folder.exists():
        shutil.rmtree(folder)
