"""The training on two nodes of `cluster_faults.py`: its recipe, its client, and what it has done."""

import hashlib
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from perf.fault_clusters import RayFaults, SlurmFaults

RECIPE = [sys.executable, "-m", "posttrain.cli.main"]
TEMPLATE = Path(__file__).parent.parent / "recipes/quickstart/solution-tags.jinja"
Cluster = SlurmFaults | RayFaults


class Training:
    """A training on two nodes, with its client."""

    def __init__(self, cluster: Cluster, recipe: Path, home: Path) -> None:
        self.cluster, self.recipe, self.home = cluster, recipe, home
        self.log = home.parent / f"{home.name}.log"
        self.client = self.start_client()
        # The processes that stay stopped until the end of the run.
        self.frozen: list[int] = []

    def start_client(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [*RECIPE, "run", str(self.recipe), "--home", str(self.home), "--on", "cluster"],
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def checkpoints(self) -> int:
        return len(list(self.home.glob("work/*/checkpoints/*/complete.json")))

    def events(self) -> list[dict[str, Any]]:
        found = [path for path in self.home.glob("*/*/record/events.jsonl") if _is_training(path.parent)]
        lines = [line for path in found for line in path.read_text().splitlines()]
        return [json.loads(line) for line in lines if line.endswith("}")]

    def step_after(self, at: float) -> float | None:
        return next((e["at"] for e in self.events() if e["kind"] == "metrics" and e["at"] > at), None)

    def wait_until(self, condition: Callable[[], Any], what: str, seconds: float = 240) -> Any:
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < deadline, f"no {what}: {self.log.read_text()[-2000:]}"
            time.sleep(0.02)
        return found

    def attempts(self) -> int:
        return sum(event["kind"] == "started" for event in self.events())

    def job(self) -> str:
        """The id of the job that runs the current attempt."""
        (claim,) = self.home.glob("work/*/attempts/*/claim.json")
        return json.loads(claim.read_text())["job"]


def _is_training(record: Path) -> bool:
    return json.loads((record / "step.json").read_text())["kind"] == "train"


def write_recipe(folder: Path, strategy: str, steps: int, nodes: int) -> Path:
    folder.mkdir(parents=True)
    shutil.copy(TEMPLATE, folder)
    shape = {"model_type": "qwen2", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4}
    params = {
        "max_steps": steps,
        "learning_rate": 2.0e-3,
        "batch_size": 16,
        "max_length": 64,
        "save_steps": 20,
    }
    stage = {
        "train": "sft",
        "model": "base",
        "data": "sums",
        "placement": {"num_processes": 2, "strategy": strategy},
        "retry": {"attempts": 4, "wait_seconds": 0},
        "params": params,
    }
    recipe = {
        "recipe": 1,
        "name": "nodes",
        "seed": 7,
        "hardware": {"nodes": nodes, "cpus": 2},
        "models": {
            "base": {
                "init": shape,
                "tokenizer": {"init": "characters"},
                "chat_template": "solution-tags.jinja",
            }
        },
        "datasets": {"sums": {"from": {"arithmetic": {"digits": 2, "count": 400, "seed": 1}}}},
        "stages": {"sft": stage},
    }
    (folder / "recipe.yaml").write_text(json.dumps(recipe))
    return folder


def product_digests(home: Path) -> dict[str, str]:
    """The SHA-256 of the files of the trained model, read from the disk."""
    found = [path.parent / "files" for path in home.glob("store/*/manifest.json") if is_trained(path)]
    (folder,) = found
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def is_trained(manifest: Path) -> bool:
    """Whether it is of the training, the only step in two processes."""
    return json.loads(manifest.read_text())["launch"]["processes"] == 2
