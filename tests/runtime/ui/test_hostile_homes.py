"""Whatever a home contains, the server lists it and goes on."""

import os
import shutil
import sqlite3
from pathlib import Path

import pytest

HTML = "<img src=x onerror=alert(1)>&quot;'"


@pytest.fixture
def runs(run_builder, make):
    """A home with an intact run, and a folder for a damaged copy."""
    run_builder.begin(make.step("sft"), make.step("check", "script"))
    run_builder.done("sft", [("metrics", {"step": 1, "values": {"loss": 1.0}})])
    run_builder.settle("check", "failed", reason=HTML)
    run_builder.end()
    return run_builder.home.runs


def cut_journal(folder: Path) -> None:
    path = folder / "journal.sqlite"
    path.write_bytes(path.read_bytes()[:5000])


def foreign_database(folder: Path) -> None:
    (folder / "journal.sqlite").unlink()
    database = sqlite3.connect(folder / "journal.sqlite")
    database.execute("CREATE TABLE step (id BLOB, other INTEGER)")
    database.commit()
    database.close()


def binary_journal(folder: Path) -> None:
    (folder / "journal.sqlite").write_bytes(os.urandom(20_000))


def half_written_journal(folder: Path) -> None:
    database = sqlite3.connect(folder / "journal.sqlite")
    database.execute("UPDATE step SET facts = '{\"a', cost = x'ff', began = 'noon'")
    database.execute("UPDATE run SET value = '{' WHERE name = 'began'")
    database.commit()
    database.close()


def folder_as_journal(folder: Path) -> None:
    (folder / "journal.sqlite").unlink()
    (folder / "journal.sqlite").mkdir()


def pipe_as_journal(folder: Path) -> None:
    (folder / "journal.sqlite").unlink()
    os.mkfifo(folder / "journal.sqlite")


def loop_as_journal(folder: Path) -> None:
    (folder / "journal.sqlite").unlink()
    (folder / "journal.sqlite").symlink_to("journal.sqlite")


def pipe_as_plan(folder: Path) -> None:
    (folder / "plan.json").unlink()
    os.mkfifo(folder / "plan.json")


def later_plan(folder: Path) -> None:
    text = (folder / "plan.json").read_text()
    (folder / "plan.json").write_text(text.replace('"format":1', '"format":99'))
    assert "99" in (folder / "plan.json").read_text()


def no_plan(folder: Path) -> None:
    (folder / "plan.json").unlink()


def deep_plan(folder: Path) -> None:
    (folder / "plan.json").write_text("[" * 100_000)


def empty(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()


DAMAGES = (
    *(
        cut_journal,
        foreign_database,
        binary_journal,
        half_written_journal,
        folder_as_journal,
        pipe_as_journal,
    ),
    *(loop_as_journal, pipe_as_plan, later_plan, no_plan, deep_plan, empty),
)


def test_each_damaged_run_is_listed_and_has_a_page(serve, runs):
    (intact,) = runs.iterdir()
    for damage in DAMAGES:
        copy = shutil.copytree(intact, runs / f"20200101-000000-{damage.__name__}")
        damage(copy)
    foreign = (runs / "20200101-000000-foreign_database" / "journal.sqlite").read_bytes()
    client = serve(runs.parent)
    page = client.get()
    for damage in DAMAGES:
        name = f"20200101-000000-{damage.__name__}"
        assert name in page
        assert "Plan" in client.get(f"run/0/{name}/") or "cannot be shown" in client.get(f"run/0/{name}/")
        assert client.send(f"run/0/{name}/log?step=sft")[0].status == 200
    assert page.count(">problem<") >= 8
    assert intact.name in client.get("?state=failed")
    assert client.get(f"run/0/{intact.name}/").count("&lt;img src=x") >= 1
    # A database of another program is not changed.
    assert (runs / "20200101-000000-foreign_database" / "journal.sqlite").read_bytes() == foreign


def test_names_are_text(serve, runs):
    (intact,) = runs.iterdir()
    names = [HTML, "\u202egnp", "a?b#c%20d", "-", "\n", "x" * 200]
    for name in names:
        shutil.copytree(intact, runs / name)
    (runs / os.fsdecode(b"\xff\xfe")).mkdir()
    client = serve(runs.parent)
    page = client.get()
    assert "<img" not in page
    assert "\u202e" not in page
    links = [part.split('"')[0] for part in page.split('href="run/')[1:]]
    assert len(links) == len(names) + 2
    for link in links:
        assert "<img" not in client.get(f"run/{link}")
    assert "<img" not in client.get("?text=%3Cimg%20src=x%3E&page=9&state=%00&home=x")


@pytest.mark.parametrize("kind", ["missing", "file", "runs is a file", "loop"])
def test_a_home_that_is_none(serve, runs, tmp_path, kind):
    other = tmp_path / f"other{HTML.replace('/', '')}"
    match kind:
        case "file":
            other.write_text("x")
        case "runs is a file":
            other.mkdir()
            (other / "runs").write_text("x")
        case "loop":
            other.symlink_to(other)
        case _:
            pass
    client = serve(other, runs.parent)
    page = client.get()
    assert next(runs.iterdir()).name in page
    assert "<img" not in page
    assert ("is not readable" in page) == (kind != "missing")


def test_events_of_any_content(serve, run_builder, make):
    run_builder.begin(make.step("sft"))
    work = run_builder.work("sft")
    lines = [
        '{"kind": "metrics", "step": 1e308, "values": {"a": 1}}',
        '{"kind": "metrics", "step": 1, "values": {"a": 1e999, "b": "x", "c": [1], "NAME": 2}}',
        '{"kind": "metrics", "step": 2, "values": {"a": NUMBER}}',
        '{"kind": "progress", "done": null, "total": {}, "unit": []}',
        '{"kind": "sample", "step": "x", "prompt": {}, "completion": [1], "values": 3}',
        '{"kind": "warning"}',
        '{"kind": "resumed", "step": null}',
        '{"kind": ["metrics"]}',
        "[" * 5000,
    ]
    text = "\n".join(lines).replace("NAME", HTML).replace("NUMBER", "9" * 400)
    (work / "record" / "events.jsonl").write_bytes(text.encode() + b"\n\xff\xff\n")
    client = serve(run_builder.home.root)
    page = client.get(f"run/0/{run_builder.run.name}/")
    assert "cannot be shown" not in page
    assert "<img" not in page
    assert "interrupted" in client.get()
