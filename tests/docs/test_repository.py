"""Checks of the whole repository: the locks, and the namespace package."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

REPOSITORY = Path(__file__).parents[2]
LOCKS = sorted((REPOSITORY / "requirements").glob("*.txt"))
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
GROUPS = PROJECT["dependency-groups"]
BASE_PACKAGES = PROJECT["project"]["dependencies"]
LOCK_USES = {
    "base": BASE_PACKAGES,
    "train": BASE_PACKAGES + EXTRAS["train"],
    "cuda": BASE_PACKAGES + EXTRAS["train"] + EXTRAS["cuda"],
    "dev": BASE_PACKAGES + EXTRAS["train"] + GROUPS["dev"],
    "tools": GROUPS["tools"],
    "apart": BASE_PACKAGES + EXTRAS["trackers"] + GROUPS["apart"],
    "appworld": GROUPS["appworld"],
}


def read_lock(use: str) -> dict[str, set[str]]:
    """The versions of each package of a lock; some differ by platform or Python version."""
    text = (REPOSITORY / "requirements" / f"{use}.txt").read_text()
    versions: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([\w.-]+)==([^\s;\\]+)", text, re.MULTILINE):
        versions.setdefault(name, set()).add(version)
    return versions


def normalize_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_there_is_a_lock_for_each_use():
    assert [lock.stem for lock in LOCKS] == sorted(LOCK_USES)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_a_lock_names_no_host_and_no_place(lock):
    lines = lock.read_text().splitlines()
    bad = [line for line in lines if re.search(r"://|--[\w-]*(index|find-links)|\.whl|file:", line)]
    assert bad == []


@pytest.mark.parametrize("use", LOCK_USES)
def test_every_line_of_a_lock_is_hashed(use):
    text = (REPOSITORY / "requirements" / f"{use}.txt").read_text()
    entries = re.split(r"\n(?=[a-z0-9])", text)
    unhashed = [entry.split("\n")[0] for entry in entries[1:] if "--hash=sha256:" not in entry]
    assert len(entries) > 1
    assert unhashed == []


@pytest.mark.parametrize("use", LOCK_USES)
def test_a_lock_satisfies_pyproject(use):
    versions = read_lock(use)
    stale = [
        f"{requirement}: locked {sorted(versions.get(normalize_name(requirement.name), ()))}; run `make lock`"
        for requirement in map(Requirement, LOCK_USES[use])
        if not any(map(requirement.specifier.contains, versions.get(normalize_name(requirement.name), ())))
    ]
    assert stale == []


def test_one_version_serves_every_use():
    widest = read_lock("cuda")
    differing = [
        f"{use}: {name} {versions}"
        for use in ("base", "train", "dev")
        for name, versions in read_lock(use).items()
        if name in widest and versions != widest[name]
    ]
    assert differing == []


def test_a_plain_install_is_light():
    heavy = {"torch", "transformers", "trl", "datasets", "numpy", "vllm", "ray"}
    assert heavy & read_lock("base").keys() == set()


def test_no_uv_lock_is_tracked():
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    assert [path for path in tracked if Path(path).name == "uv.lock"] == []


def test_posttrain_is_a_namespace():
    inits = [f"{root}/posttrain/__init__.py" for root in ("spec", "compiler", "runtime")]
    assert [path for path in inits if (REPOSITORY / path).exists()] == []


def test_no_file_names_a_place_of_one_machine():
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    files = [REPOSITORY / name for name in tracked if name]
    place = re.compile(rb"/[\w./-]+/(\.venv|site-packages)/")
    named = [file.name for file in files if file.is_file() and place.search(file.read_bytes())]
    assert named == []
