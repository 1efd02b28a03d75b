"""Golden tests of batch scripts, also of containers, which no test runs.

`--regenerate` rewrites the files in `batch_scripts/`; review the changes.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from posttrain.runtime.runners.cluster.job_specs import JobSpecs
from posttrain.runtime.runners.cluster.slurm_script import batch_script, limit_seconds
from posttrain.spec.place import SlurmPlace
from posttrain.spec.plan import Launch, Resources, SourceLocation, Step

GOLDEN = Path(__file__).parent / "batch_scripts"
WORK = Path("/shared/me/.recipe/work/0123abcd")
IMAGE = "ghcr.io/lab/posttrain@sha256:" + "ab" * 32
PYTHON = "/shared/venv/bin/python"
TWO_NODES = Launch(processes=16, strategy="zero2", nodes=2)
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "everything": (
        {
            "partition": "gpu",
            "account": "lab 7",
            "qos": "high",
            "constraint": "ib&nvme",
            "time_limit": "12:00:00",
            "gpu_type": "h100",
            "memory_gb": 200.0,
            "cpus": 16,
            "environment": {"LD_LIBRARY_PATH": "/opt/cuda lib"},
            "setup": ["module load cuda/12.8"],
            "options": ["--exclusive", "--mail-type=FAIL"],
        },
        {"resources": Resources(cpus=4, gpus=8)},
    ),
    "kept-alive": ({"keep_alive_seconds": 60.0}, {}),
    "pyxis": (
        {"container": "pyxis", "memory_gb": 32.0},
        {"image": IMAGE, "resources": Resources(cpus=4, gpus=2)},
    ),
    "apptainer": (
        {"container": {"runtime": "apptainer", "mounts": ["/data/models"]}},
        {"image": IMAGE, "resources": Resources(gpus=1)},
    ),
    "nodes": (
        {"memory_gb": 64.0, "time_limit": "12:00:00"},
        {"resources": Resources(cpus=16, gpus=16), "launch": TWO_NODES},
    ),
    "pyxis-nodes": (
        {"container": "pyxis"},
        {"image": IMAGE, "resources": Resources(gpus=16), "launch": TWO_NODES},
    ),
    "apptainer-nodes": (
        {"container": "apptainer"},
        {"image": IMAGE, "resources": Resources(gpus=16), "launch": TWO_NODES},
    ),
}


def step(**values: Any) -> Step:
    return Step(
        id="sft",
        kind="train",
        entry="posttrain.runtime.methods.sft:run",
        params={},
        place=SourceLocation(file="recipe.yaml", line=1, column=1),
        key="0123abcd",
        key_parts={},
        key_values={},
        **values,
    )


@pytest.mark.parametrize("name", CASES)
def test_script(name: str, request: pytest.FixtureRequest) -> None:
    options, values = CASES[name]
    place = SlurmPlace.model_validate({"engine": "slurm", "python": PYTHON, **options})
    specs, one = JobSpecs(place), step(**values)
    pool = specs.pool_name(one)
    script = batch_script(specs.pool_job(WORK, pool, one) if pool else specs.step_job(WORK, one), place)
    file = GOLDEN / f"{name}.sh"
    if request.config.getoption("--regenerate"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(script)
    assert script == file.read_text()


def test_nodes_that_were_lost_are_excluded() -> None:
    place = SlurmPlace.model_validate({"engine": "slurm"})
    spec = JobSpecs(place).step_job(WORK, step(launch=TWO_NODES))
    assert "#SBATCH --exclude=n2,n7\n" in batch_script(replace(spec, excluded=("n2", "n7")), place)


def test_a_step_with_an_image_never_shares_a_node() -> None:
    place = SlurmPlace.model_validate({"engine": "slurm", "container": "pyxis", "keep_alive_seconds": 60.0})
    assert JobSpecs(place).pool_name(step(image=IMAGE)) is None
    assert JobSpecs(place).pool_name(step()) is not None


def test_pools_differ_by_request_and_place() -> None:
    first = SlurmPlace.model_validate({"engine": "slurm", "keep_alive_seconds": 60.0})
    second = SlurmPlace.model_validate({"engine": "slurm", "keep_alive_seconds": 60.0, "python": PYTHON})
    names = [
        JobSpecs(first).pool_name(step()),
        JobSpecs(first).pool_name(step(resources=Resources(cpus=2))),
        JobSpecs(second).pool_name(step()),
    ]
    assert len(set(names)) == 3
    assert JobSpecs(first).pool_name(step()) == names[0]


@pytest.mark.parametrize(
    ("limit", "seconds"),
    [
        *(("5", 300), ("1:30", 90), ("12:00:00", 43200), ("1-0", 86400), ("2-3:30", 185400)),
        *(("1-0:0:9", 86409), ("0", 0)),
    ],
)
def test_a_time_limit_is_read_as_sbatch_reads_it(limit: str, seconds: int) -> None:
    assert limit_seconds(limit) == seconds


@pytest.mark.parametrize(("limit", "warns"), [("4", False), ("5", True), ("0", True)])
def test_a_short_job_gets_no_signal_before_its_limit(limit: str, *, warns: bool) -> None:
    """It would come before the step did anything."""
    place = SlurmPlace.model_validate({"engine": "slurm", "python": PYTHON, "time_limit": limit})
    assert ("--signal=B:TERM@120" in batch_script(JobSpecs(place).step_job(WORK, step()), place)) == warns


def test_values_are_quoted_as_sbatch_reads_them() -> None:
    place = SlurmPlace.model_validate(
        {
            "engine": "slurm",
            "python": PYTHON,
            "options": ["--comment=a b", "--mail-user='x y'", "--exclusive"],
        }
    )
    work = Path("/home/it's 100%j/.recipe/work/0123abcd")
    lines = batch_script(JobSpecs(place).step_job(work, step()), place).splitlines()
    assert '#SBATCH --output="/home/it\'s 100%%j/.recipe/work/0123abcd/job-output"' in lines
    assert '#SBATCH --comment="a b"' in lines
    assert "#SBATCH --mail-user='x y'" in lines
    assert "#SBATCH --exclusive" in lines
