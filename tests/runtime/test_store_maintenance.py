"""Maintenance of a home: gc, verify, runs and adopt, on runs of small scripts and datasets."""

import json
import os
import signal
import sqlite3
from pathlib import Path

import pytest
from tests.recipe_command import file_digests, product_path, run_command, start_command, wait_until

from posttrain.runtime.store.checkpoints import finalize

RECIPE = """\
recipe: 1
name: keeping
datasets:
  sums:
    from: {arithmetic: {digits: 1, count: 20, seed: 1}}
    steps:
      - where: "length(answer) <= 1"
stages:
  count: {script: [sh, -c, "ls $INPUT_SUMS | wc -l > $OUT/n"], inputs: {sums: sums}}
  other: {script: [sh, -c, "echo WORD > $OUT/word"]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, "first")
    assert run_command("run", tmp_path, "--home", tmp_path / "home").returncode == 0
    return tmp_path


def write(folder: Path, word: str) -> None:
    (folder / "recipe.yaml").write_text(RECIPE.replace("WORD", word))


def run(folder: Path, *more: str) -> str:
    done = run_command("run", folder, "--home", folder / "home", *more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def gc(folder: Path, *more: str) -> str:
    done = run_command("gc", "--home", folder / "home", *more)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_gc_shows_first_and_keeps_what_a_run_names(folder: Path) -> None:
    assert gc(folder, "--yes") == "nothing to delete\n"
    old = product_path(folder / "home", "other").parent
    write(folder, "second")
    run(folder)
    assert gc(folder) == "nothing to delete\n", "the first run still refers to its products"

    shown = gc(folder, "--keep-runs", "1")
    assert "product of other that no run refers to" in shown
    assert "old run" in shown
    assert "delete the items with --yes" in shown
    assert old.exists()
    assert len(list((folder / "home" / "runs").iterdir())) == 2

    assert gc(folder, "--keep-runs", "1", "--older-than", "1d") == "nothing to delete\n"
    assert "deleted" in gc(folder, "--keep-runs", "1", "--yes")
    assert not old.exists()
    assert len(list((folder / "home" / "runs").iterdir())) == 1
    assert "nothing to run" in run(folder)
    newest = max((folder / "home" / "runs").iterdir())
    assert not (newest / "report.html").exists(), "a run without new results wrote a report"
    assert not list((folder / "home" / "work").glob("*")), "gc left something behind"


def test_gc_refuses_when_a_run_does_not_say_what_it_names(folder: Path) -> None:
    (only,) = (folder / "home" / "runs").iterdir()
    (only / "plan.json").write_text("{")
    assert gc(folder) == "nothing to delete\n", "the journal still refers to the products"
    (only / "journal.sqlite").write_bytes(b"garbage" * 100)
    done = run_command("gc", "--home", folder / "home", "--yes")
    assert done.returncode == 1
    assert f"the run {only.name} is not readable" in done.stderr
    assert run_command("gc", "--home", folder / "home", "--older-than", "soon").returncode == 2


def test_gc_leaves_alone_what_is_at_work(folder: Path) -> None:
    home, seconds = folder / "home", f"98{os.getpid() % 1000:03}"
    (folder / "recipe.yaml").write_text(
        f'recipe: 1\nname: nap\nstages:\n  nap: {{script: [sh, -c, "sleep {seconds}"]}}\n'
    )
    client = start_command("run", folder, "--home", home, log=folder / "log")
    try:
        wait_until(lambda: any(home.glob("work/*/record/log")), "the nap", client)
        nap = next(home.glob("work/*/record/log")).parent.parent
        gc(folder, "--keep-runs", "0", "--yes")
        runs = [path.name for path in (home / "runs").iterdir()]
        assert len(runs) == 1, "gc removed the active run, or kept the old one"
        assert runs[0].endswith("nap")
        assert nap.exists()
        (listed,) = json.loads(run_command("runs", "--home", home, "--format", "json").stdout)
        assert listed["state"] == "running"
    finally:
        client.send_signal(signal.SIGKILL)
        client.wait()
    wait_until(
        lambda: "working directory that no run" in gc(folder, "--keep-runs", "0"),
        "the end of the nap",
    )
    gc(folder, "--keep-runs", "0", "--yes")
    assert not nap.exists()


def test_verify_quarantines_damaged_products(folder: Path) -> None:
    home = folder / "home"
    assert "2 of" not in run_command("verify", "--home", home).stdout
    whole = file_digests(product_path(home, "count"))
    damaged = product_path(home, "count") / "n"
    damaged.write_bytes(bytes([damaged.read_bytes()[0] ^ 1]) + damaged.read_bytes()[1:])
    manifest = product_path(home, "other").parent / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"kind": "script"', '"kind": "scribe"'))
    found = run_command("verify", "--home", home)
    assert found.returncode == 1
    assert "n does not match the digest in its manifest" in found.stdout
    assert "manifest.json: its checksum does not match its fields" in found.stdout
    assert "checked 3 products, 3 files, 1 run, 3 rows; 2 damaged" in found.stdout
    repaired = run_command("verify", "--home", home, "--repair")
    assert repaired.returncode == 0
    assert repaired.stdout.count("quarantined") == 2
    assert "2 done, 1 cached" in run(folder).replace("1 cached, 2 done", "2 done, 1 cached")
    assert file_digests(product_path(home, "count")) == whole
    assert run_command("verify", "--home", home).stdout.endswith(
        "3 products, 4 files, 2 runs, 6 rows: no damage found\n"
    )
    assert "quarantined as damaged" in gc(folder)


def test_verify_checks_plans_and_rebuilds_a_lost_journal(folder: Path) -> None:
    home = folder / "home"
    (only,) = (home / "runs").iterdir()
    journal, plan = only / "journal.sqlite", only / "plan.json"
    whole = plan.read_text()
    plan.write_text(whole.replace("keeping", "kepping"))
    found = run_command("verify", "--home", home)
    assert found.returncode == 1
    assert "the plan is not the one that the journal was started with" in found.stdout
    plan.write_text(whole)
    page = bytearray(journal.read_bytes())
    page[4096 : 4096 + 64] = bytes(64)
    for damaged in (bytes(page), b"garbage" * 100):
        journal.write_bytes(damaged)
        assert run_command("verify", "--home", home).returncode == 1
        repaired = run_command("verify", "--home", home, "--repair")
        assert repaired.returncode == 0, repaired.stdout + repaired.stderr
        assert "rebuilt from the plan and the store" in repaired.stdout
        assert run_command("status", "--home", home).stdout.count("cached") == 3
        assert "no damage found" in run_command("verify", "--home", home).stdout
    plan.write_text("{")
    assert "its plan is not readable" in run_command("verify", "--home", home).stdout
    verified = run_command("verify", "--home", home, "--repair")
    assert verified.returncode == 1
    assert "not repaired" in verified.stdout


def test_verify_reports_an_empty_journal_and_a_missing_plan(folder: Path) -> None:
    home = folder / "home"
    (only,) = (home / "runs").iterdir()
    journal = only / "journal.sqlite"
    journal.write_bytes(b"")
    for name in ("journal.sqlite-wal", "journal.sqlite-shm"):
        (only / name).unlink(missing_ok=True)
    found = run_command("verify", "--home", home)
    assert (found.returncode, "is empty" in found.stdout) == (1, True), found.stdout
    assert not journal.stat().st_size, "a check does not write"
    plan = (only / "plan.json").read_bytes()
    (only / "plan.json").unlink()
    found = run_command("verify", "--home", home)
    assert (found.returncode, "its plan is missing" in found.stdout) == (1, True), found.stdout
    refused = run_command("gc", "--home", home, "--yes")
    assert (refused.returncode, "is not readable" in refused.stderr) == (1, True), refused.stdout
    (only / "plan.json").write_bytes(plan)
    repaired = run_command("verify", "--home", home, "--repair")
    assert repaired.returncode == 0, repaired.stdout
    assert "no damage found" in run_command("verify", "--home", home).stdout


def test_verify_reports_a_journal_that_lost_its_rows(folder: Path) -> None:
    home = folder / "home"
    (only,) = (home / "runs").iterdir()
    database = sqlite3.connect(only / "journal.sqlite")
    database.execute("DELETE FROM step")
    database.execute("DELETE FROM run")
    database.commit()
    database.close()
    found = run_command("verify", "--home", home)
    assert (found.returncode, "do not match the plan" in found.stdout) == (1, True), found.stdout


@pytest.mark.parametrize("damage", ["same size", "truncated", "manifest"])
def test_path_refuses_a_damaged_product(folder: Path, damage: str) -> None:
    home = folder / "home"
    word = product_path(home, "other") / "word"
    if damage == "manifest":
        (word.parent.parent / "manifest.json").write_text("{")
    else:
        word.write_text("fisrt\n" if damage == "same size" else "")
    refused = run_command("path", "other", "--home", home)
    assert (refused.returncode, refused.stdout) == (1, ""), refused.stdout
    assert "the product of `other` is damaged" in refused.stderr
    assert run_command("verify", "--home", home, "--repair").returncode == 0
    assert "has not finished" in run_command("path", "other", "--home", home).stderr
    assert run_command("path", "count", "--home", home).returncode == 0


def test_verify_checks_unfinished_work(folder: Path) -> None:
    work = folder / "home" / "work" / ("f" * 64)
    for number in (3, 6):
        checkpoint = work / "checkpoints" / f"checkpoint-{number}"
        checkpoint.mkdir(parents=True)
        (checkpoint / "weights").write_text(str(number))
        finalize(checkpoint)
    torn = work / "checkpoints" / "checkpoint-9"
    torn.mkdir()
    (torn / "weights").write_text("9")
    looked = run_command("verify", "--home", folder / "home")
    assert looked.returncode == 0
    assert "1 unfinished step, 2 checkpoints: no damage found" in looked.stdout
    (work / "checkpoints" / "checkpoint-6" / "weights").write_text("7")
    (work / "receipt.json").write_text('{"files": {}, "checksum": "none"}')
    (work / "model").symlink_to(work / "nowhere")
    found = run_command("verify", "--home", folder / "home").stdout
    for what in (
        "checkpoint-6/weights does not match complete.json",
        "receipt.json: its checksum does not match",
        "the link model is dangling",
    ):
        assert what in found
    assert run_command("verify", "--home", folder / "home", "--repair").returncode == 0
    assert "1 checkpoint:" in run_command("verify", "--home", folder / "home").stdout
    assert torn.exists(), "it has no manifest"


def test_verify_names_what_a_product_was_not_made_with(folder: Path) -> None:
    home = folder / "home"
    files = product_path(home, "count")
    (files / "more").write_text("not part of the product")
    assert "the file more is not in its manifest" in run_command("verify", "--home", home).stdout
    (files / "more").unlink()
    (files / "model").symlink_to(files / "nowhere")
    assert "the link files/model is dangling" in run_command("verify", "--home", home).stdout
    assert run_command("verify", "--home", home, "--repair").returncode == 0
    assert "1 products of runs are missing from the store" in run_command("verify", "--home", home).stdout


def test_runs_are_listed_with_their_results(folder: Path) -> None:
    home = folder / "home"
    write(folder, "word; exit 3")
    assert run_command("run", folder, "--home", home).returncode == 1
    listed = json.loads(run_command("runs", "--home", home, "--format", "json").stdout)
    assert [one["state"] for one in listed] == ["finished", "failed"]
    assert listed[0]["steps"] == {"done": 3}
    assert listed[1]["steps"] == {"cached": 2, "failed": 1}
    text = run_command("runs", "--home", home).stdout
    assert "1 failed" in text
    assert len(text.splitlines()) == 3
    assert "no runs in" in run_command("runs", "--home", folder / "nowhere").stdout


@pytest.fixture
def newer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An environment in which duckdb reports another version."""
    about = tmp_path / "newer" / "duckdb-99.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: duckdb\nVersion: 99.0\n")
    before = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", f"{about.parent}{os.pathsep}{before}" if before else str(about.parent))
    return "99.0"


def adopt(folder: Path, *stages: str) -> tuple[int, str]:
    because = ("--because", "nothing that we use changed")
    done = run_command("adopt", *stages, "--recipe", folder, "--home", folder / "home", *because)
    return done.returncode, done.stdout + done.stderr


def test_an_older_product_is_adopted_on_the_record(folder: Path, newer: str) -> None:
    home = folder / "home"
    old = product_path(home, "datasets.sums")
    planned = run_command("plan", folder, "--home", home).stdout
    assert f"-> {newer}; or `recipe adopt datasets.sums`" in planned

    status, output = adopt(folder, "datasets.sums")
    assert status == 0, output
    new = product_path(home, "datasets.sums")
    assert new != old
    assert file_digests(new) == file_digests(old)
    assert all(path.samefile(old / path.name) for path in new.iterdir()), "copied, not linked"
    manifest = json.loads((new.parent / "manifest.json").read_text())
    assert manifest["adopted"]["from"] == old.parent.name
    assert manifest["adopted"]["differs"] == ["environment"]
    assert manifest["adopted"]["because"] == "nothing that we use changed"

    # In the record of the adoption, and of every run that uses the product.
    assert "adopted from" in run_command("status", "--home", home).stdout
    status, output = adopt(folder, "datasets.sums", "count")
    assert status == 0, output
    assert "nothing to adopt" in output
    assert "nothing to run" in run(folder)
    assert "nothing that we use changed" in run_command("status", "--home", home).stdout
    assert "adopted from" in run_command("plan", folder, "--home", home).stdout
    assert gc(folder) == "nothing to delete\n"
    assert "no damage found" in run_command("verify", "--home", home).stdout


def test_what_differs_otherwise_is_not_adopted(folder: Path, newer: str) -> None:
    recipe = folder / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("count: 20", "count: 21"))
    status, output = adopt(folder, "datasets.sums")
    assert status == 1
    assert "not only the environment differs" in output
    assert "source.params" in output
    status, output = adopt(folder, "count")
    assert status == 1
    assert "its input `datasets.sums` changed" in output
    assert "recipe adopt" not in run_command("plan", folder, "--home", folder / "home").stdout
    status, output = adopt(folder, "datasets.sumz")
    assert status == 2
    assert "did you mean" in output


def test_gc_deletes_cached_training_rows_unless_a_run_is_active(folder: Path) -> None:
    from posttrain.runtime.store.file_locks import try_lock
    from posttrain.runtime.store.garbage import find_garbage
    from posttrain.runtime.store.home import Home
    from posttrain.runtime.training_rows.arrow_cache import cached_entry, part_file

    home = Home(folder / "home")

    def build(target: Path) -> dict[str, int]:
        part_file(target, 0).write_bytes(b"rows")
        return {}

    entry = cached_entry(home.row_cache, "rows", build)
    (home.row_cache / f"{entry.key}.host.abandoned").mkdir()
    (run_folder,) = home.runs.iterdir()
    lock = try_lock(home.run_lock(run_folder))
    assert lock is not None
    assert find_garbage(home) == []
    lock.release()
    assert "training rows that the next training writes again" in gc(folder)
    assert "bytes deleted" in gc(folder, "--yes")
    assert list(home.row_cache.iterdir()) == []
    assert gc(folder) == "nothing to delete\n"
