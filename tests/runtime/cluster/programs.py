"""Recipes of programs that record what happens to them."""

import json
from pathlib import Path

# Records every start in a file, and exits when the file `go` exists in the folder of the recipe.
WAITING = """\
import os, pathlib, time
with open("{folder}/begun", "a") as file:
    file.write("begun\\n")
while not os.path.exists("{folder}/go"):
    time.sleep(0.02)
pathlib.Path(os.environ["OUT"], "count").write_text("done")
"""
PROBE = """\
import json, os, pathlib
pathlib.Path(os.environ["OUT"], "found.json").write_text(json.dumps(sorted(os.environ)))
"""
GPU_PROBE = """\
import json, os, pathlib
pathlib.Path(os.environ["OUT"], "found.json").write_text(json.dumps(os.environ.get("CUDA_VISIBLE_DEVICES")))
"""


def write_recipe(folder: Path, **programs: str) -> Path:
    """A recipe with one stage for each Python program."""
    folder.mkdir(exist_ok=True)
    stages = {
        name: {"script": ["python3", "-c", text.replace("{folder}", str(folder))]}
        for name, text in programs.items()
    }
    (folder / "recipe.yaml").write_text(json.dumps({"recipe": 1, "name": "programs", "stages": stages}))
    return folder


def starts(folder: Path) -> int:
    """How often the waiting program was started."""
    try:
        return len((folder / "begun").read_text().splitlines())
    except FileNotFoundError:
        return 0
