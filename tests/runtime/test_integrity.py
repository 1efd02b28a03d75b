"""Damaged files are detected before use, reported, quarantined and rebuilt."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
from tests.recipe_command import (
    TINY_RECIPE,
    file_digests,
    find_processes,
    product_path,
    run_command,
    start_command,
    wait_until,
)
from tests.runtime.test_run_resume import count_checkpoints

from posttrain.runtime import atomic_io
from posttrain.spec.document_json import json_checksum

pytestmark = pytest.mark.slow
CHANGED_STEPS = ("--set", "stages.grpo.params.max_steps=6")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of an undisturbed run."""
    home = tmp_path_factory.mktemp("whole")
    done = run_command("run", TINY_RECIPE, "--home", home)
    assert done.returncode == 0, done.stdout + done.stderr
    return home


@pytest.fixture
def home(whole: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "home"
    shutil.copytree(whole, copy)
    return copy


def test_a_flipped_byte_is_noticed_before_the_product_is_used(home: Path, whole: Path) -> None:
    weights = product_path(home, "sft") / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    done = run_command("run", TINY_RECIPE, "--home", home, *CHANGED_STEPS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "model.safetensors does not match the digest" in done.stdout
    assert list((home / "store" / ".damaged").iterdir()), "nothing was quarantined"
    assert file_digests(product_path(home, "sft")) == file_digests(product_path(whole, "sft"))


@pytest.mark.parametrize("stage", ["sft", "models.base"])
def test_a_damaged_record_is_noticed_before_an_export_reads_it(stage: str, home: Path, whole: Path) -> None:
    """The card of an export shows the parameters of all steps that its model was trained in."""
    record = product_path(home, stage).parent / "record" / "step.json"
    record.write_text(record.read_text().replace('"params":', '"parans":', 1))
    shutil.rmtree(product_path(home, "export").parent)
    done = run_command("run", TINY_RECIPE, "--home", home)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "record/step.json does not match the digest" in done.stdout
    assert file_digests(product_path(home, "export")) == file_digests(product_path(whole, "export"))
    assert run_command("verify", "--home", home).returncode == 0


def test_a_truncated_manifest_is_a_product_that_is_not_there(home: Path, whole: Path) -> None:
    manifest = product_path(home, "grpo").parent / "manifest.json"
    manifest.write_text(manifest.read_text()[:100])
    done = run_command("run", TINY_RECIPE, "--home", home)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "> grpo" in done.stdout
    assert "> sft" not in done.stdout
    assert file_digests(product_path(home, "grpo")) == file_digests(product_path(whole, "grpo"))


def test_a_journal_of_garbage_costs_no_finished_step(home: Path) -> None:
    for journal in (home / "runs").glob("*/journal.sqlite"):
        journal.write_bytes(b"garbage" * 100)
        for name in ("journal.sqlite-wal", "journal.sqlite-shm"):
            (journal.parent / name).unlink(missing_ok=True)
    asked = run_command("status", "--home", home)
    assert asked.returncode == 1
    assert "is damaged" in asked.stderr
    assert "Traceback" not in asked.stderr
    done = run_command("run", TINY_RECIPE, "--home", home)
    assert done.returncode == 0
    assert "nothing to run" in done.stdout


def test_a_damaged_checkpoint_is_passed_over_for_an_older_one(whole: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    client = start_command("run", TINY_RECIPE, "--home", home, log=tmp_path / "log")
    wait_until(lambda: count_checkpoints(home, "grpo") >= 2, "two checkpoints of grpo", client)
    os.kill(client.pid, signal.SIGKILL)
    client.wait()
    wait_until(lambda: not find_processes(home), "the end of all workers")
    found = sorted(home.glob("work/*/checkpoints/*/complete.json"), key=lambda path: path.stat().st_mtime)
    newest = found[-1].parent / "model.safetensors"
    newest.write_bytes(newest.read_bytes()[:-7])
    again = run_command("run", TINY_RECIPE, "--home", home)
    assert again.returncode == 0, again.stdout + again.stderr
    assert file_digests(product_path(home, "grpo")) == file_digests(product_path(whole, "grpo"))


# The adapter references its base product, like a LoRA adapter; the step that reads it does not.
ADAPTER_RECIPE = """\
recipe: 1
name: standing
stages:
  base: {script: [sh, -c, "seq 1000 > $OUT/weights"]}
  adapter:
    script:
      - sh
      - -c
      - >-
        key=$(basename $(dirname $(readlink -f $INPUT_BASE))) &&
        printf '{"key": "%s"}' $key > $OUT/base.json
    inputs: {base: base}
  use: {script: [sh, -c, "cat $INPUT_IT/base.json > $OUT/SEEN"], inputs: {it: adapter}}
"""


@pytest.mark.parametrize("how", ["flipped", "gone"])
def test_adapter_base_is_verified(how: str, tmp_path: Path) -> None:
    recipe, home = tmp_path / "recipe.yaml", tmp_path / "home"
    recipe.write_text(ADAPTER_RECIPE)
    assert run_command("run", tmp_path, "--home", home).returncode == 0
    product = product_path(home, "base")
    weights = product / "weights"
    sound = weights.read_bytes()
    weights.write_bytes(b"9" + sound[1:])
    recipe.write_text(ADAPTER_RECIPE.replace("SEEN", "seen"))
    if how == "gone":
        shutil.rmtree(product.parent)
    done = run_command("run", tmp_path, "--home", home)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "> base" in done.stdout
    assert "> adapter" not in done.stdout, "the adapter was intact"
    assert (product_path(home, "base") / "weights").read_bytes() == sound
    assert run_command("verify", "--home", home).returncode == 0


def test_adapter_with_unbuildable_base_is_rebuilt(tmp_path: Path) -> None:
    recipe, home = tmp_path / "recipe.yaml", tmp_path / "home"
    recipe.write_text(ADAPTER_RECIPE)
    assert run_command("run", tmp_path, "--home", home).returncode == 0
    adapter = product_path(home, "adapter")
    rewritten = json.loads((adapter.parent / "manifest.json").read_text())
    (adapter / "base.json").write_text(json.dumps({"key": "0" * 64}))
    rewritten["files"] = atomic_io.file_digests(adapter)
    rewritten["checksum"] = json_checksum(rewritten)
    (adapter.parent / "manifest.json").write_text(json.dumps(rewritten))
    recipe.write_text(ADAPTER_RECIPE.replace("SEEN", "seen"))
    done = run_command("run", tmp_path, "--home", home)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "is missing from the store" in done.stdout
    assert "> adapter" in done.stdout
    assert "> base" not in done.stdout
