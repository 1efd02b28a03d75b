"""Damaged and hostile records of a home: each is a message with the file and the cause, never a traceback."""

import contextlib
import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.recipe_command import run_command
from tests.runtime.hostile_json import HOSTILE, Damage, write_sealed
from tests.runtime.scripts_recipe import RECIPE, compile_text, run_text

from posttrain.runtime import worker
from posttrain.runtime.errors import FAILED, StepError
from posttrain.runtime.event_tail import EventTail, last_metrics
from posttrain.runtime.events import read_events
from posttrain.runtime.execution.adopt_stages import adopt_stages
from posttrain.runtime.execution.dry_run import forecast_plan
from posttrain.runtime.inspection.run_lookup import DamagedProduct, find_product
from posttrain.runtime.inspection.run_status import list_run_summaries, read_run_status
from posttrain.runtime.report.run_reader import read_run
from posttrain.runtime.store import checkpoints, workdir
from posttrain.runtime.store.garbage import find_garbage
from posttrain.runtime.store.home import Home
from posttrain.runtime.store.plan_outline import read_plan_outline
from posttrain.runtime.store.runs import last_run, list_runs
from posttrain.runtime.store.verify_findings import Finding, VerifyProgress
from posttrain.runtime.store.verify_home import check_home, verify_home
from posttrain.runtime.trackers.metrics_reader import MetricsReader
from posttrain.spec.document_json import DocumentError, NewerFormatError
from posttrain.spec.plan import Plan

EACH = pytest.mark.parametrize(("damage", "cause"), HOSTILE.values(), ids=HOSTILE)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Plan]:
    folder = tmp_path_factory.mktemp("finished")
    assert run_text(folder, RECIPE, Home(folder / "home")).succeeded
    return folder, compile_text(folder, RECIPE)[0]


@pytest.fixture
def plan(finished: tuple[Path, Plan]) -> Plan:
    return finished[1]


@pytest.fixture
def home(finished: tuple[Path, Plan], tmp_path: Path) -> Home:
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    return Home(tmp_path / "home")


def damaged_manifest(home: Home, plan: Plan, damage: Damage) -> Path:
    path = home.store.root / plan.step("count").key / "manifest.json"
    damage(path, json.loads(path.read_text()))
    return path


def findings(home: Home) -> list[Finding]:
    return list(verify_home(home, VerifyProgress()))


@EACH
def test_a_hostile_manifest_is_named_with_its_file_and_cause(
    damage: Damage, cause: str, home: Home, plan: Plan
) -> None:
    path = damaged_manifest(home, plan, damage)
    key = plan.step("count").key
    with pytest.raises(DocumentError) as raised:
        home.store.read(key)
    assert str(raised.value).startswith(f"{path}: ")
    assert cause in str(raised.value)
    assert raised.value.advice
    assert home.store.find(key) is None, "an unknown provenance is a miss"
    (found,) = findings(home)
    assert cause in found.problem
    assert (found.kind, found.name) == ("product", key)
    assert (found.repair is None) == isinstance(raised.value, NewerFormatError)
    assert cause in forecast_plan(plan, home)["count"].reason
    find_garbage(home, keep_runs=1)


@EACH
def test_commands_that_show_a_run_tolerate_a_hostile_manifest(
    damage: Damage, cause: str, home: Home, plan: Plan
) -> None:
    damaged_manifest(home, plan, damage)
    run = list_runs(home)[0]
    assert [step.entry.state for step in read_run_status(home, run).steps] == ["done", "done"]
    assert find_product(home, run, "double") is not None
    with contextlib.suppress(DamagedProduct):  # some damage is outside the fields that it reads
        find_product(home, run, "count")
    assert [step.state for step in read_run(home, run).steps] == ["done", "done"]


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "text for a number": ({"cost": {"seconds": "3"}}, "`cost.seconds`: "),
    "below zero": ({"cost": {"seconds": -1.0}}, "`cost.seconds`: must be at least 0"),
    "key": ({"key": "0" * 64}, f"it belongs under the key {'0' * 64}"),
    "digest": ({"files": {"n": {"size": 1, "sha256": "f"}}}, "`files.n.sha256`: the text does not have"),
    "traversal": ({"files": {"../n": {"size": 1, "sha256": "f" * 64}}}, "`files.../n`: not a valid name"),
    "absolute": ({"files": {"/etc/passwd": {"size": 1, "sha256": "f" * 64}}}, "not a valid name"),
    "files": ({"files": [1]}, "`files`: "),
    "facts": ({"facts": None}, "`facts`: "),
    "gate": ({"kind": "gate", "facts": {"verdict": "yes"}}, "`facts.verdict`: must be pass, fail or"),
    "launch": ({"launch": {}}, "`launch.nodes`: field required"),
    "older": ({"format": 1}, "it has format 1 of an older release, not 2"),
    "many": (dict.fromkeys("abcdef", 1), "`c`: unknown key; and 3 more errors"),
    "control": ({"a\x1b[31m\n" * 99: 1}, "`a?[31m?a?[31m?"),
}


@pytest.mark.parametrize(("changes", "cause"), CHANGES.values(), ids=CHANGES)
def test_a_sealed_manifest_with_wrong_fields_is_named(
    changes: dict[str, Any], cause: str, home: Home, plan: Plan
) -> None:
    path = damaged_manifest(home, plan, lambda path, record: write_sealed(path, record, **changes))
    with pytest.raises(DocumentError) as raised:
        home.store.read(path.parent.name)
    assert cause in str(raised.value)
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 600
    read_run_status(home, list_runs(home)[0])
    (found,) = findings(home)
    assert cause in found.problem


def test_a_changed_field_without_the_checksum_is_damage(home: Home, plan: Plan) -> None:
    path = damaged_manifest(home, plan, lambda path, data: path.write_text(json.dumps({**data, "kind": "x"})))
    with pytest.raises(DocumentError, match="its checksum does not match its fields"):
        home.store.read(path.parent.name)
    assert home.store.find_outline(path.parent.name) is None


@pytest.mark.parametrize("name", ["truncated", "unknown", "pipe", "nested"])
def test_a_run_says_why_it_rebuilds_a_damaged_product(name: str, home: Home, plan: Plan) -> None:
    damage, cause = HOSTILE[name]
    path = damaged_manifest(home, plan, damage)
    done = run_command("run", home.root.parent, "--home", home.root)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"its product is damaged ({path}: " in done.stdout.replace("\n", "")
    assert cause in done.stdout
    assert home.store.find(path.parent.name) is not None
    assert list(home.store.quarantined()), "the damaged product was deleted"


def test_a_run_does_not_replace_the_product_of_a_newer_release(home: Home, plan: Plan) -> None:
    path = damaged_manifest(home, plan, HOSTILE["newer"][0])
    before = path.read_bytes()
    done = run_command("run", home.root.parent, "--home", home.root)
    assert done.returncode == 1
    assert "it has format 99 of a newer release; this release reads format 2" in done.stdout
    assert "upgrade posttrain, or use another home with --home" in done.stdout
    assert path.read_bytes() == before
    check_home(home, VerifyProgress(), repair_damage=True)
    assert path.read_bytes() == before
    (adoption,) = adopt_stages(plan, home, ["count"], "it is the same", home.root.parent / "recipe.yaml")
    assert adoption.outcome == "refused"
    assert "newer release" in adoption.reason


@EACH
def test_a_hostile_plan_is_named(damage: Damage, cause: str, home: Home) -> None:
    run = last_run(home)
    assert run is not None
    path = run / "plan.json"
    damage(path, json.loads(path.read_text()))
    found = next(one for one in findings(home) if one.step == "plan")
    assert "its plan is not readable: " in found.problem
    assert cause in found.problem
    read_plan_outline(run)
    list(list_run_summaries(home))
    find_garbage(home, keep_runs=1)
    if path.is_file() and cause != HOSTILE["huge"][1]:
        shown = run_command("diff", path, path)
        assert shown.returncode == 2
        assert cause in shown.stderr
        assert "internal error" not in shown.stderr


@pytest.fixture
def work(home: Home, plan: Plan) -> Path:
    """The working directory of a step with a receipt."""
    work = home.workdir(plan.step("count").key)
    workdir.prepare(work, plan.step("count"), {}, home.root.parent)
    (work / "files").mkdir()
    (work / "files" / "count").write_text("3\n")
    workdir.write_receipt(work, plan.step("count").key, {"rows": 3}, {"seconds": 1.0})
    return work


@EACH
def test_a_hostile_receipt_is_no_result(damage: Damage, cause: str, home: Home, work: Path) -> None:
    path = work / "receipt.json"
    damage(path, json.loads(path.read_text()))
    assert workdir.load_receipt(work) is None
    (found,) = findings(home)
    assert f"{path}: " in found.problem
    assert cause in found.problem


def test_a_receipt_is_read_as_it_was_written(work: Path, plan: Plan) -> None:
    receipt = workdir.load_receipt(work, check_digests=True)
    assert receipt is not None
    assert (receipt.key, receipt.facts) == (plan.step("count").key, {"rows": 3})
    (work / "files" / "count").write_text("4\n")
    assert workdir.load_receipt(work, check_digests=True) is None


def test_numbers_that_json_lacks_are_null_in_a_receipt(work: Path) -> None:
    facts = {"loss": float("nan"), "ends": (1, float("inf")), "metrics": {"a": {"value": 0.5}}}
    workdir.write_receipt(work, "0" * 64, facts, {})
    expected = {"loss": None, "ends": [1, None], "metrics": {"a": {"value": 0.5}}}
    assert workdir.read_receipt(work).facts == expected


def test_a_file_name_that_no_manifest_can_have_fails_the_step(work: Path) -> None:
    (work / "files" / "\udcff").write_text("")
    with pytest.raises(StepError, match=r"invalid result of the step: .*files"):
        workdir.write_receipt(work, "0" * 64, {}, {})


@EACH
def test_a_hostile_failure_is_a_failure(damage: Damage, cause: str, work: Path, plan: Plan) -> None:
    path = work / "failure.json"
    record = {"message": "it broke", "advice": "", "retriable": True, "cost": {}, "format": 1}
    path.write_text(json.dumps(record))
    assert workdir.read_failure(work, 1, plan.step("count")).message == "it broke"
    damage(path, record)
    failure = workdir.read_failure(work, 1, plan.step("count"))
    assert not failure.retriable
    assert cause in failure.message


@EACH
def test_a_hostile_job_fails_the_step(damage: Damage, cause: str, work: Path) -> None:
    path = work / "job.json"
    damage(path, json.loads(path.read_text()))
    assert worker.main(work) == FAILED
    failure = json.loads((work / "failure.json").read_text())
    assert f"{path}: " in failure["message"]
    assert cause in failure["message"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two checkpoints."""
    for number in (3, 6):
        checkpoint = tmp_path / "checkpoints" / f"checkpoint-{number}"
        checkpoint.mkdir(parents=True)
        (checkpoint / "weights").write_text(str(number))
        checkpoints.finalize(checkpoint)
    return tmp_path / "checkpoints"


@EACH
def test_a_hostile_checkpoint_is_passed_over(damage: Damage, cause: str, folder: Path) -> None:
    path = folder / "checkpoint-6" / checkpoints.MANIFEST
    damage(path, json.loads(path.read_text()))
    with pytest.raises(DocumentError) as raised:
        checkpoints.check(path.parent)
    assert f"{path}: " in str(raised.value)
    assert cause in str(raised.value)
    if isinstance(raised.value, NewerFormatError):
        with pytest.raises(StepError, match="format 99 of a newer release"):
            checkpoints.latest_intact(folder)
        assert path.exists(), "the checkpoint of a newer release is not damaged"
    else:
        assert checkpoints.latest_intact(folder) == folder / "checkpoint-3"
        assert not path.exists()


def test_a_checkpoint_without_a_format_number_is_of_the_first_format(folder: Path) -> None:
    path = folder / "checkpoint-6" / checkpoints.MANIFEST
    record = json.loads(path.read_text())
    del record["format"]
    write_sealed(path, record)
    assert checkpoints.latest_intact(folder) == path.parent


ROWS = {
    "not JSON": "cost = '['",
    "not an object": "facts = '[]'",
    "nested": f"facts = '{'[' * 200_000}'",
    "binary": "reason = x'ff'",
    "state": "state = 'perhaps'",
    "attempt": "attempt = 'x'",
    "began": "began = 'x'",
    "cost": """cost = '{"seconds": "x"}'""",
    "estimate": "estimate = 'null'",
    "key": "key = '../..'",
}


@pytest.mark.parametrize("change", ROWS.values(), ids=ROWS)
def test_a_hostile_journal_is_named(change: str, home: Home) -> None:
    for path in list_journals(home):
        with sqlite3.connect(path) as database:
            database.execute(f"UPDATE step SET {change} WHERE id = 'count'")
        database.close()
    (found,) = findings(home)
    assert found.step == "journal"
    assert found.repair is not None
    list(list_run_summaries(home))
    read_run(home, list_runs(home)[0])
    for command in (("status",), ("status", "--format", "json"), ("runs",)):
        shown = run_command(*command, "--home", home.root)
        assert "internal error" not in shown.stderr
        assert "Traceback" not in shown.stderr
    assert check_home(home, VerifyProgress(), repair_damage=True)[0].is_repaired
    assert findings(home) == []


def list_journals(home: Home) -> Iterator[Path]:
    return (run / "journal.sqlite" for run in list_runs(home))


def test_hostile_lines_of_events_are_skipped(home: Home, work: Path) -> None:
    """The code of a user can write into the file while the client follows it."""
    shutil.rmtree(home.store.root / work.name)  # the step runs
    path = work / "record" / "events.jsonl"
    lines = ("[" * 200_000, "\xff", '{"kind": "metrics", "values": {"loss": "x"}, "step": "y"}', "[1]")
    path.write_text("".join(f"{line}\n" for line in lines))
    assert last_metrics(path) == {}
    assert EventTail(path).progress() is None
    assert list(MetricsReader(home, work.name).new_points()) == []
    flipped = (  # bits in the names of fields
        '{"kind": "metrics", "step": 1, "valuas": {}, "at": 2.0}',
        '{"kind": "metrics", "step": 1, "values": {}, "au": 2.0}',
    )
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in flipped)
    assert len(read_events(path)) == 3
    assert list(MetricsReader(home, work.name).new_points()) == []
    with path.open("a") as file:
        file.write('{"kind": "metrics", "values": {"loss": 0.5}, "step": 1, "at": 2.0}\n')
    assert last_metrics(path) == {"loss": 0.5}
    assert [point.values for point in MetricsReader(home, work.name).new_points()] == [{"loss": 0.5}]
    with path.open("a") as file:
        file.write('{"kind": "resumed", "stap": 1}\n')
    with pytest.raises(ValueError, match="an event resumed has no valid step"):
        read_events(path)
