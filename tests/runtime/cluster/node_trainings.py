"""A training on two nodes: its recipe, and programs of its nodes without an engine."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.recipe_command import ROOT, wait_until

from posttrain.cli.compile import compile_file
from posttrain.runtime.process_tree import descendants, kill_tree
from posttrain.runtime.runners.cluster.attempt_files import AttemptFiles, begin_attempt, new_token
from posttrain.runtime.store import workdir
from posttrain.runtime.store.home import Home
from posttrain.spec.plan import Plan, Step
from posttrain.spec.step_records import ClusterAttempt
from posttrain.spec.version import VERSION

PROGRAM = "posttrain.runtime.runners.cluster.multi_node_program"
TEMPLATE = ROOT / "recipes" / "quickstart" / "solution-tags.jinja"


def write_training(folder: Path, *, nodes: int, strategy: str = "ddp", steps: int = 60) -> Path:
    """Two processes on one node or on two: the key is the same."""
    folder.mkdir(parents=True)
    shutil.copy(TEMPLATE, folder)
    shape = {"model_type": "qwen2", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4}
    params = {"max_steps": steps, "learning_rate": 2.0e-3, "batch_size": 16, "max_length": 64}
    stage: dict[str, Any] = {
        "train": "sft",
        "model": "base",
        "data": "sums",
        "placement": {"num_processes": 2, "strategy": strategy},
        "retry": {"attempts": 3, "wait_seconds": 0},
        "params": {**params, "save_steps": 5},
    }
    model = {"init": shape, "tokenizer": {"init": "characters"}, "chat_template": TEMPLATE.name}
    recipe = {
        "recipe": 1,
        "name": "nodes",
        "hardware": {"nodes": nodes, "cpus": 2},
        "models": {"base": model},
        "datasets": {"sums": {"from": {"arithmetic": {"digits": 2, "count": 200, "seed": 1}}}},
        "stages": {"it": stage},
    }
    (folder / "recipe.yaml").write_text(json.dumps(recipe))
    return folder


def plan_of(recipe: Path) -> Plan:
    plan = compile_file(recipe / "recipe.yaml", (), ())[0].plan
    assert plan is not None
    return plan


def trained_manifest(home: Path) -> Path:
    """The manifest of the training, the only step in two processes."""
    found = [path for path in home.glob("store/*/manifest.json") if _launch(path)["processes"] == 2]
    return found[0]


def trained_files(home: Path, *, nodes: int) -> dict[str, str]:
    """The digests of the product, which was trained on this number of nodes."""
    path = trained_manifest(home)
    assert _launch(path)["nodes"] == nodes
    return {name: file["sha256"] for name, file in json.loads(path.read_text())["files"].items()}


def home_without_product(local: Path, folder: Path) -> Home:
    """A copy of a home that has the model and the data, but not the product of the training."""
    shutil.copytree(local, folder / "home")
    shutil.rmtree(trained_manifest(folder / "home").parent)
    return Home(folder / "home")


def _launch(manifest: Path) -> Mapping[str, Any]:
    return json.loads(manifest.read_text())["launch"]


def last_rank(home: Path) -> int:
    """The only process of the second node of a job: program, supervisor, worker, rank."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command, variables = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
            is_second = b"SLURM_NODEID=1" in variables or b"POSTTRAIN_CLUSTER_NODE_INDEX=1" in variables
            if PROGRAM.encode() in command and str(home).encode() in command and is_second:
                return descendants(int(entry.name))[-1]
    raise AssertionError("the second node runs no program")


@dataclass
class LocalNodes:
    """The programs of two nodes on this machine, as a job of Slurm starts them."""

    recipe: Path
    home: Home
    programs: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])

    def __post_init__(self) -> None:
        self.step: Step = plan_of(self.recipe).step("it")
        self.work = self.home.workdir(self.step.key)

    def start(self) -> AttemptFiles:
        """Begin an attempt, as a client does."""
        store = self.home.store
        plan = plan_of(self.recipe)
        inputs: dict[str, Path] = {}
        for role, source in self.step.inputs.items():
            product = store.find(plan.step(source.step).key)
            assert product is not None
            inputs[role] = product.files
        workdir.prepare(self.work, self.step, inputs, self.recipe)
        attempt = ClusterAttempt(
            token=new_token(), job_name="posttrain-x", release=VERSION, variables={}, secrets=False
        )
        files = begin_attempt(self.work, attempt, {})
        self.programs = [self._start_program(index) for index in range(2)]
        return files

    def _start_program(self, index: int) -> subprocess.Popen[bytes]:
        place = {"SLURM_JOB_ID": "7", "SLURM_NODEID": str(index), "SLURMD_NODENAME": f"n{index + 1}"}
        command = [sys.executable, "-m", PROGRAM, str(self.work)]
        return subprocess.Popen(command, env={**os.environ, **place}, start_new_session=True)

    def wait(self, files: AttemptFiles, seconds: float = 180) -> int:
        wait_until(lambda: files.ended() is not None, "the end of the step", seconds=seconds)
        ended = files.ended()
        assert ended is not None
        return ended.status

    def wait_for_checkpoints(self, count: int) -> None:
        wait_until(lambda: len(self.checkpoints()) >= count, "a checkpoint", seconds=180)

    def checkpoints(self) -> list[Path]:
        return list((self.work / "checkpoints").glob("*/complete.json"))

    def rank(self, index: int) -> int:
        """The process of the only rank of a node: program, supervisor, worker, rank."""
        return descendants(self.programs[index].pid)[-1]

    def freeze(self, index: int) -> list[int]:
        """Stop all processes of a node, and return them."""
        program = self.programs[index].pid
        found = [program, *descendants(program)]
        for pid in found:
            os.kill(pid, signal.SIGSTOP)
        return found

    def failure(self) -> Mapping[str, Any]:
        return json.loads((self.work / "failure.json").read_text())

    def files(self) -> dict[str, str]:
        receipt = json.loads((self.work / "receipt.json").read_text())
        return {name: file["sha256"] for name, file in receipt["files"].items()}

    def end(self) -> None:
        for program in self.programs:
            if program.poll() is None:
                os.kill(program.pid, signal.SIGCONT)
                kill_tree(program.pid)
            program.wait()
