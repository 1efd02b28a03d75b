"""The pages in a real browser, with real runs in progress: a script that is stopped, and a training."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.recipe_command import (
    RECIPE_COMMAND,
    TINY_RECIPE,
    Process,
    run_command,
    start_command,
    wait_until,
)
from tests.runtime.report.axe_check import all_violations, install_axe, load_axe
from tests.runtime.report.conftest import Browser
from tests.runtime.ui.conftest import Client

from posttrain.runtime.events import EventWriter
from posttrain.runtime.store.file_locks import acquire_lock
from posttrain.runtime.store.run_labels import RunLabels, write_labels

pytestmark = pytest.mark.browser

# The first run of the stage goes on until it is stopped, and saves its state then. The next one finds it.
RECIPE = """\
recipe: 1
name: stoppable
stages:
  count:
    script:
      - sh
      - -c
      - |
        if test -e FOLDER/saved; then echo resumed; exit 0; fi
        trap "echo saving; touch FOLDER/saved; exit 1" TERM
        touch FOLDER/started
        n=0
        while :; do n=$((n + 1)); echo "line $n <b>bold</b>"; sleep 0.1; done
  after: {script: [sh, -c, "echo done"], inputs: {number: count}}
"""


def visit(browser: Browser, url: str) -> None:
    browser.look()
    browser.events.clear()
    browser.call("Page.navigate", url=url)
    while not any(event.get("method") == "Page.loadEventFired" for event in browser.events):
        browser.events.append(browser._next())


def see(browser: Browser, expression: str, what: str, client: Process | None = None) -> None:
    """Wait until an expression is true in the page."""
    wait_until(lambda: bool(browser.value(expression)), what, client, seconds=60)


def text_of(id: str) -> str:
    return f"(document.getElementById('{id}')?.textContent ?? '')"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "recipe.yaml").write_text(RECIPE.replace("FOLDER", str(tmp_path)))
    return tmp_path


def test_a_run_is_followed_stopped_and_resumed(browser: Browser, serve, folder: Path):
    home = folder / "home"
    # The list is open before there is a run.
    client: Client = serve(home)
    visit(browser, client.server.url)
    see(browser, f"{text_of('runs')}.includes('There are no runs')", "the empty list")
    run = start_command("run", folder, "--home", home, log=folder / "log")
    wait_until((folder / "started").exists, "the program", run)
    see(browser, f"{text_of('runs')}.includes('running')", "the run in the list", run)
    browser.value("document.querySelector('.runs a').click()")
    see(browser, "!!document.getElementById('plan')", "the page of the run", run)

    see(browser, f"{text_of('now')}.includes('count')", "the running step", run)
    see(browser, f"{text_of('now')}.includes('Memory')", "the memory", run)
    see(browser, f"{text_of('log-text')}.includes('line 3 <b>bold</b>')", "the log", run)
    lines = browser.value(f"{text_of('log-text')}.split('\\n').length")
    see(browser, f"{text_of('log-text')}.split('\\n').length > {lines} + 5", "more of the log", run)
    numbers = browser.value(f"{text_of('log-text')}.match(/line \\d+/g).map((one) => Number(one.slice(5)))")
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))

    # The page asks; without a yes, the run goes on.
    browser.value("window.confirm = () => false")
    browser.value("document.querySelector('#stop button').click()")
    time.sleep(0.3)
    assert run.poll() is None
    browser.value("window.confirm = () => true")
    browser.value("document.querySelector('#stop button').click()")
    assert run.wait(120) == 130
    assert (folder / "saved").exists()
    see(browser, f"{text_of('summary')}.includes('Interrupted')", "the end of the run")
    assert browser.value("document.querySelector('#stop button')") is None
    assert browser.value("document.querySelectorAll('b, img').length") >= 1
    assert browser.value("[...document.querySelectorAll('#log-text *')].length") == 0
    assert browser.complaints() == []

    again = run_command("run", folder, "--home", home)
    assert again.returncode == 0, again.stdout + again.stderr
    visit(browser, client.server.url)
    assert browser.value("document.querySelectorAll('.runs tbody tr').length") == 2
    assert "finished" in browser.value(text_of("runs"))


@pytest.mark.slow
def test_the_curves_of_a_training_grow(browser: Browser, serve, tmp_path: Path):
    """A training that the browser follows, and which resumes after its stop."""
    text = (TINY_RECIPE / "recipe.yaml").read_text()
    assert "max_steps: 12, learning_rate: 1.0e-2, batch_size: 16, save_steps: 4" in text
    text = text.replace("max_steps: 12, learning_rate: 1.0e-2", "max_steps: 100000, learning_rate: 1.0e-3")
    (tmp_path / "recipe.yaml").write_text(text)
    (tmp_path / "chat.jinja").write_text((TINY_RECIPE / "chat.jinja").read_text())
    home = tmp_path / "home"
    run = start_command("run", tmp_path, "--only", "sft", "--home", home, log=tmp_path / "log")
    client: Client = serve(home)
    wait_until(lambda: "loss" in (tmp_path / "log").read_text(), "the training", run)
    name = next((home / "runs").iterdir()).name
    visit(browser, f"{client.server.url}run/0/{name}/")
    about = "document.querySelector('#curves .head .soft')?.textContent.match(/(\\d+) steps/)"
    last_step = f"Number(({about} ?? [0, 0])[1])"
    see(browser, f"{last_step} > 0", "the curves", run)
    seen = browser.value(last_step)
    browser.value("document.querySelector('#steps details').open = true")
    see(browser, f"{last_step} > {seen}", "more of the curves", run)
    assert browser.value("document.querySelectorAll('#curves .chart svg').length") >= 3
    assert "loss" in browser.value(text_of("now"))
    # What the user opened remains open, and a chart that was replaced answers to the keyboard.
    assert browser.value("document.querySelector('#steps details').open")
    browser.value("document.querySelector('#curves .chart svg').focus()")
    browser.press("End")
    assert browser.value("document.querySelector('#curves .readout').textContent").startswith("step ")
    before = browser.value(last_step)
    time.sleep(3)
    assert browser.value(last_step) == before, "a chart that is in use was replaced"
    assert browser.complaints() == []
    status, problem = client.post(f"run/0/{name}/stop")
    assert status == 303, problem
    assert run.wait(120) == 130
    browser.value("document.activeElement.blur()")
    see(browser, f"{text_of('summary')}.includes('Interrupted')", "the end of the run")
    plan = run_command("plan", tmp_path, "--home", home)
    assert "resume" in plan.stdout, plan.stdout


def test_axe_finds_no_violation(browser: Browser, serve, run_builder, make, tmp_path: Path):
    """In the list and in the page of a run, with a name and tags, a failed step and a running one."""
    script = install_axe(tmp_path / "npm")
    run_builder.begin(make.step("sft"), make.step("check", "script"), make.step("after", "script"))
    run_builder.done("sft", [("metrics", {"step": n, "values": {"loss": 1 / (n + 1)}}) for n in range(30)])
    run_builder.work("check", log="Traceback\nthe last line\n")
    run_builder.settle("check", "failed", reason="out of luck", attempt=1)
    run_builder.settle("after", "running", attempt=1)
    write_labels(run_builder.run, RunLabels(name="the better one", tags=("a", "b"), note="slow <b>"))
    lock = acquire_lock(run_builder.home.run_lock(run_builder.run))
    client: Client = serve(run_builder.home.root)
    for url, shown in (("", "the better one"), (f"run/0/{run_builder.run.name}/", "Stop at a checkpoint")):
        visit(browser, client.server.url + url)
        see(browser, f"document.body.textContent.includes('{shown}')", shown)
        load_axe(browser, script)
        found = all_violations(browser)
        assert found == {}, json.dumps(found, indent=1)
        assert browser.complaints() == []
    lock.release()


def test_a_page_reconnects_to_its_server(browser: Browser, serve, run_builder, make):
    """A connection that breaks is opened again, and brings what changed meanwhile."""
    run_builder.begin(make.step("sft"), make.step("check", "script"))
    client: Client = serve(run_builder.home.root)
    visit(browser, f"{client.server.url}run/0/{run_builder.run.name}/")
    see(browser, "document.getElementById('connection').textContent === 'live'", "the stream")
    client.server.is_ending = True  # ends the streams
    see(browser, "document.getElementById('connection').textContent !== 'live'", "the end of the stream")
    run_builder.settle("sft", "failed", reason="out of luck", attempt=1)
    client.server.is_ending = False
    see(browser, f"{text_of('failures')}.includes('out of luck')", "the change")
    assert browser.value("document.getElementById('connection').textContent") == "live"


def test_a_page_that_finds_no_room_waits_and_says_so(browser: Browser, serve, tmp_path: Path):
    client: Client = serve(tmp_path)
    taken = [client.server.streams.acquire(blocking=False) for _ in range(32)]
    assert all(taken)
    visit(browser, client.server.url)
    badge = "document.getElementById('connection').textContent"
    see(browser, f"{badge}.startsWith('Too many pages')", "the reason")
    time.sleep(0.5)
    assert browser.value(badge).startswith("Too many pages")
    client.server.streams.release()
    see(browser, f"{badge} === 'live'", "the stream")


def test_new_samples_keep_the_place_of_the_reader(browser: Browser, serve, run_builder, make):
    """Neither the link of the page is followed again, nor the list shortened."""
    run_builder.begin(make.step("grpo"))
    samples = [("sample", {"step": n, "prompt": f"p{n}", "completion": "c\n" * 30}) for n in range(30)]
    work = run_builder.work("grpo", samples)
    client: Client = serve(run_builder.home.root)
    visit(browser, f"{client.server.url}run/0/{run_builder.run.name}/#sample-0-20")
    see(browser, "scrollY > 0", "the sample of the link")
    browser.value("document.querySelector('#more-samples').click()")
    browser.value("scrollTo(0, 0)")
    EventWriter(work / "record" / "events.jsonl").emit("sample", step=30, prompt="p30", completion="c")
    see(browser, f"{text_of('samples')}.includes('p30')", "the new sample")
    shown = "[...document.querySelectorAll('.sample')].filter((one) => one.checkVisibility()).length"
    assert (browser.value("scrollY"), browser.value(shown)) == (0, 31)


def test_the_command_serves_until_a_signal(tmp_path: Path):
    command = [*RECIPE_COMMAND, "ui", "--home", str(tmp_path), "--no-open"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    assert url.startswith("http://127.0.0.1:")
    port = url.split(":")[2].split("/")[0]
    taken = run_command("ui", "--home", tmp_path, "--no-open", "--port", port)
    assert taken.returncode == 1
    assert f"port {port} of 127.0.0.1" in taken.stderr
    os.kill(process.pid, signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "", "")
